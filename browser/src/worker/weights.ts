/**
 * @file A checkpoint's tensors into a session and out of it. The session knows the layout: names and
 * shapes are compared with it, never typed again.
 */
import { NotFiniteError, TabgptError } from "../core/index.ts";
import type { NamedTensor } from "../checkpoint/safetensors.ts";
import type { RunSession } from "./session.ts";

const MOMENT = /^[mv]:/;

function parameterNames(session: RunSession): string[] {
  return session.names().filter((name) => name.startsWith("transformer."));
}

/** Copies `tensors` into those of the session's tensors that `wanted` names: all, and no other. */
async function setTensors(session: RunSession, wanted: string[], tensors: NamedTensor[], what: string): Promise<void> {
  const given = new Map(tensors.map((tensor) => [tensor.name, tensor]));
  for (const name of wanted) {
    const tensor = given.get(name);
    if (!tensor) throw new TabgptError(`the ${what} lacks the tensor "${name}"`);
    const shape = session.shape(name);
    if (shape.length !== tensor.shape.length || shape.some((size, axis) => size !== tensor.shape[axis])) {
      throw new TabgptError(`tensor "${name}" has the shape [${tensor.shape.join(", ")}]; this config needs [${shape.join(", ")}]`);
    }
    given.delete(name);
  }
  const [extra] = given.keys();
  if (extra !== undefined) throw new TabgptError(`the ${what} holds the tensor "${extra}", which this model lacks`);
  for (const { name, read } of tensors) session.setTensor(name, await read());
}

export function setWeights(session: RunSession, weights: NamedTensor[]): Promise<void> {
  return setTensors(session, parameterNames(session), weights, "checkpoint");
}

export function setMoments(session: RunSession, moments: NamedTensor[]): Promise<void> {
  return setTensors(session, session.names().filter((name) => MOMENT.test(name)), moments, "optimizer's file");
}

/**
 * The session's own, copied one by one as they are written. A step of finite loss and gradients may still
 * end in weights or moments that overflowed: reading one throws NotFiniteError.
 */
function tensorsIn(session: RunSession, names: string[]): NamedTensor[] {
  return names.map((name) => ({
    name,
    shape: session.shape(name),
    read: async () => {
      const values = await session.tensor(name);
      refuseWhatIsNotFinite(name, values);
      return values;
    },
  }));
}

function refuseWhatIsNotFinite(name: string, values: Float32Array): void {
  for (let i = 0; i < values.length; i++) {
    if (values[i]! - values[i]! !== 0) throw new NotFiniteError(`tensor "${name}" holds ${values[i]} at element ${i}`);
  }
}

export function weightsIn(session: RunSession): NamedTensor[] {
  return tensorsIn(session, parameterNames(session));
}

export function momentsIn(session: RunSession): NamedTensor[] {
  return tensorsIn(session, session.names().filter((name) => MOMENT.test(name)));
}
