# The command line, in the tab: `tabgpt train` on a text of yours,
# then a sample. Leave out --corpus for nine plays of Shakespeare.
from pathlib import Path

import tabgpt
from tabgpt.cli import app

line = "She sells sea shells by the sea shore. "
Path("text.txt").write_text(line * 200)

command = """
    train --corpus text.txt --preset tiny --steps 150 --ctx 32
    --batch 4 --eval-interval 50 --out run --overwrite
"""
app(command.split(), standalone_mode=False)

model = tabgpt.load("run")
print(model.generate("She", max_new_tokens=80, temperature=0.6))
