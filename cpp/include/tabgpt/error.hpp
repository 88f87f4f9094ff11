/**
 * The calling thread's last error, and the one way to set it.
 *
 * The core throws nothing: a function that can fail returns false (or a null
 * pointer) after fail() has recorded a sentence that names the value, the limit
 * and the way out. The text lives in a fixed buffer, so that running out of
 * memory can be reported too.
 */
#pragma once

namespace tabgpt {

/** Records a printf-style sentence for this thread. Returns false, so that `return fail(...)` reads well. */
[[gnu::format(printf, 1, 2)]] bool fail(const char* format, ...);

/** The last sentence of this thread, "" when there was none. Valid until the next fail(). */
const char* last_error();

}  // namespace tabgpt
