/**
 * @file Trains on the page in Firefox, as a person does, for tests/firefox.py. Takes a Job as JSON in its
 * argument; leaves the saved run's zip in job.folder, and prints what the page says of its engine.
 */
import { existsSync, readdirSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import puppeteer, { type Page } from "../browser/node_modules/puppeteer-core/lib/puppeteer/puppeteer-core.js";

interface Job {
  firefox: string;
  url: string;
  folder: string;
  device: "gpu" | "cpu";
  text: string;
  fields: Record<string, string | number>;
}

const PATIENCE_MS = 120_000;
const PREFERENCES = {
  "dom.webgpu.enabled": true, // Linux has it behind this
  "gfx.webgpu.ignore-blocklist": true, // a driver on the CPU is blocked
  "browser.download.folderList": 2, // into browser.download.dir
  "browser.download.always_ask_before_handling_new_types": false,
};

async function main(job: Job): Promise<void> {
  const browser = await puppeteer.launch({
    browser: "firefox",
    executablePath: job.firefox,
    headless: true,
    extraPrefsFirefox: { ...PREFERENCES, "browser.download.dir": job.folder },
  });
  try {
    const page = await browser.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.goto(job.url);
    const gpu = await chooseDevice(page, job.device);
    await fill(page, job);
    await press(page, "Start");
    await finish(page);
    const engine = await textOf(page, "engine-line");
    await press(page, "Download zip");
    await downloaded(job.folder);
    console.log(JSON.stringify({ version: await browser.version(), gpu, engine }));
  } finally {
    await browser.close();
  }
}

/** Gives what the page says of the GPU once it has looked: it offers one only after its self-check. */
async function chooseDevice(page: Page, device: Job["device"]): Promise<string> {
  await page.waitForFunction(() => !/^(Looking|$)/.test(document.getElementById("gpu-reason")?.textContent?.trim() ?? ""));
  const said = await textOf(page, "gpu-reason");
  if (device === "gpu" && (await page.$("#device option[value=gpu]:disabled"))) throw new Error(`no GPU: ${said}`);
  await page.select("#device", device);
  return said;
}

/** The text and the hyper-parameters. */
async function fill(page: Page, job: Job): Promise<void> {
  await page.$eval("input[name=corpus-source][value=paste]", (radio) => radio.click());
  await page.locator("#corpus-paste").fill(job.text);
  await page.$$eval("details", (folds) => folds.forEach((fold) => (fold.open = true)));
  for (const [name, value] of Object.entries(job.fields)) await page.locator(`#field-${name}`).fill(String(value));
}

/** Waits until the button may be pressed. */
async function press(page: Page, name: string): Promise<void> {
  await page.locator(`button ::-p-text(${name})`).click();
}

/** To the run's end; what the page says of a run that fails is the error. */
async function finish(page: Page): Promise<void> {
  const end = await page.waitForFunction(() => {
    const state = document.querySelector("[data-testid=state]")?.textContent?.trim() ?? "";
    return ["Finished", "Failed", "Stopped"].includes(state) && state;
  });
  if ((await end.jsonValue()) !== "Finished") throw new Error(`the run failed: ${await textOf(page, "error")}`);
}

/** The text of an element by its test id, "" where there is none. */
function textOf(page: Page, id: string): Promise<string> {
  return page.evaluate((name) => {
    const shown = document.querySelector(`[data-testid=${name}]`)?.textContent ?? "";
    return shown.replace(/\s+/g, " ").trim();
  }, id);
}

/** Firefox writes NAME.part beside an empty NAME until it is whole. */
async function downloaded(folder: string): Promise<void> {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; await sleep(50)) {
    const names = existsSync(folder) ? readdirSync(folder) : [];
    if (names.some((name) => name.endsWith(".zip")) && !names.some((name) => name.endsWith(".part"))) return;
  }
  throw new Error(`no zip arrived in ${folder}`);
}

await main(JSON.parse(process.argv[2]!) as Job);
