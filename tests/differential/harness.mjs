// The harness for drivers in JavaScript: harness.mjs DRIVER LISTS OUT [ONLY]. It does what harness.py does; see there.
import { createHash } from 'node:crypto';
import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export const SUMMARY = 'The files were read, the fault was found, and its tests pass now. '.repeat(6).trim();

// The stand-in for a tokenizer counts code points, as Python does; a library's own estimator counts what it counts.
const points = (text) => [...text].length;
export const tokens = (text) => Math.ceil(points(text) / 4);
export const callsKey = (calls) => calls.map(([name, args]) => name + JSON.stringify(args)).join('');
export const count = (m) => tokens(m.text + callsKey((m.calls ?? []).map((c) => [c.name, c.args])));

// A library of the folder that the harness is started in.
export const library = (path) => import(pathToFileURL(join(process.cwd(), 'node_modules', path)));

export class Stop extends Error {} // the library gives up: its agent would end here

// The state of one conversation under a policy: what most drivers share.
export class Session {
  constructor(settings) {
    Object.assign(this, { settings, state: [], system: [], inputs: [], usage: 0 });
  }

  async add(at, m) {
    this.inputs.push(m);
    if (this.mergeResults && m.role === 'tool' && this.inputs[at - 1].role === 'tool') {
      return this.merge(this.state.at(-1), this.native(at, m)); // results of parallel calls are one message
    }
    (m.role === 'system' ? this.system : this.state).push(this.native(at, m));
  }

  async ask() {
    return [...this.system, ...(await this.policy())];
  }

  answered(views) {
    this.usage = views.reduce((sum, [, , text, calls]) => sum + tokens(text + calls), 0);
  }
}

const sha = (text) => createHash('sha256').update(text, 'utf8').digest('hex').slice(0, 16);

function entry(seen, originals) {
  const [at, role, text, calls] = seen;
  const same = at != null && originals[at].every((part, i) => part === seen[i]);
  if (same) return at;
  const made = at != null ? { m: at } : {};
  Object.assign(made, { role, len: points(text), sha: sha(text) });
  if (calls && (at == null || originals[at][3] !== calls)) made.calls = sha(calls);
  return made;
}

function packed(prompt, made, known) {
  const out = [];
  let run = [];
  const flush = () => out.push(...(run.length > 2 ? [[run[0], run.at(-1)]] : run));
  for (const e of prompt) {
    let n = e;
    if (typeof e !== 'number') {
      const key = JSON.stringify(e);
      if (!known.has(key)) known.set(key, -made.push(e));
      n = known.get(key);
    }
    const step = n < 0 ? -1 : 1;
    if (run.length && n === run.at(-1) + step && n < 0 === run.at(-1) < 0) run.push(n);
    else { flush(); run = [n]; }
  }
  flush();
  return out;
}

async function record(session, one) {
  const fired = [], made = [], known = new Map(), originals = [];
  let before = [], decisions = 0, asked = 0, stopped;
  for (const [at, m] of one.messages.entries()) {
    if (m.role === 'assistant') {
      decisions += 1;
      let views;
      try {
        views = (await session.ask()).flatMap((native) => session.view(native));
      } catch (e) {
        if (!(e instanceof Stop)) throw e;
        stopped = at;
        break;
      }
      session.answered(views);
      const seen = views.map((v) => entry(v, originals));
      const expected = [...before, ...Array.from({ length: at - asked }, (_, i) => asked + i)];
      if (JSON.stringify(seen) !== JSON.stringify(expected)) fired.push({ at, prompt: packed(seen, made, known) });
      before = seen;
      asked = at;
    }
    originals.push(session.view(session.native(at, m)).at(-1));
    if (originals[at][0] !== at) throw new Error(`message ${at} is not told by its place`);
    await session.add(at, m);
  }
  return { list: one.id, decisions, made, fired, ...(stopped === undefined ? {} : { stopped }) };
}

async function main([driver, listsPath, out, only = '']) {
  const { POLICIES } = await import(pathToFileURL(driver));
  const lists = readFileSync(listsPath, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
  for (const [name, [pack, settings, Kind]] of Object.entries(POLICIES)) {
    if (!name.includes(only)) continue;
    const start = Date.now();
    const { version } = JSON.parse(readFileSync(join('node_modules', pack, 'package.json'), 'utf8'));
    const lines = [{ policy: name, package: pack, version, settings }];
    for (const one of lists) lines.push(await record(new Kind(settings), one));
    const input = lines.map((line) => JSON.stringify(line) + '\n').join('');
    const zst = spawnSync('zstd', ['-19', '-q', '-c'], { input, maxBuffer: 1 << 30 });
    writeFileSync(join(out, `${name}.jsonl.zst`), zst.stdout);
    const fired = lines.slice(1).map((line) => line.fired.length);
    const seconds = ((Date.now() - start) / 1000).toFixed(1);
    console.log(name.padEnd(36), version.padEnd(10), 'lists', fired.length, ' fired', fired.filter((n) => n > 0).length,
      ' twice', fired.filter((n) => n > 1).length, '', seconds, 's');
  }
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
  main(process.argv.slice(2)); // not awaited: the driver imports this module
}
