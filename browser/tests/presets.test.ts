import { expect, test } from "vitest";
import { FIELDS, fieldNamed, modelConfig, PRESETS, presetValues, problemsIn, problemWith } from "../src/presets.ts";

test("every preset is valid and resolves the MLP's width", () => {
  for (const name of Object.keys(PRESETS)) {
    const values = presetValues(name);
    expect(problemsIn(values)).toEqual({});
    expect(modelConfig(values, 65).d_mlp).toBe(4 * (values.d_model as number));
  }
});

test.each([
  ["n_layer", 0, /from 1 to 1023/],
  ["n_layer", 1.5, /whole number/],
  ["n_layer", NaN, /not a number/],
  ["n_layer", "", /Empty/],
  ["lr", 0, /above 0 and at most 10/],
  ["lr", Infinity, /not a number/],
  ["dropout", 1, /at least 0 and below 1/],
  ["activation", "relu", /one of gelu_tanh, gelu_erf/],
  ["seed", 2 ** 32, /4294967295/],
])("%s = %s is refused", (name, value, message) => {
  expect(problemWith(fieldNamed(name), value)).toMatch(message);
});

test("limits themselves are allowed", () => {
  for (const field of FIELDS) {
    if (field.min !== undefined) expect(problemWith(field, field.min)).toBe("");
    if (field.max !== undefined) expect(problemWith(field, field.max)).toBe("");
  }
});

test("heads must divide the width, and be narrow enough", () => {
  expect(problemsIn({ ...presetValues("tiny"), n_head: 5 }).n_head).toMatch(/do not divide a width of 48/);
  expect(problemsIn({ ...presetValues("tiny"), n_head: 1, d_model: 256 }).n_head).toMatch(/use 2 heads/);
  expect(problemsIn({ ...presetValues("tiny"), n_head: 1, d_model: 129 }).n_head).toMatch(/use 3 heads/);
});
