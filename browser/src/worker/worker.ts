/**
 * @file The training worker's entry: commands in, replies and events out.
 */
import { messageOf } from "../core/errors.ts";
import { Desk } from "./desk.ts";
import type { CommandName, FromWorker, Request, ToWorker } from "./protocol.ts";

const send = (message: FromWorker): void => globalThis.postMessage(message);
const desk = new Desk({
  emit: (event) => send({ type: "event", ...event }),
  keep: (kept) => send({ type: "kept", kept }),
});

async function answer<K extends CommandName>(id: number, command: K, request: Request<K>): Promise<void> {
  try {
    send({ type: "done", id, reply: await desk.handle(command, request) });
  } catch (error) {
    send({ type: "failed", id, message: messageOf(error) });
  }
}

globalThis.onmessage = ({ data: { id, command, request } }: MessageEvent<ToWorker>) => {
  void answer(id, command, request as Request<typeof command>);
};
