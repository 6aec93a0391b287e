// pi's compaction, what both versions share: a session's entries, and when it is asked.
import { Session, SUMMARY, callsKey, tokens } from '../harness.mjs';

const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
const usageOf = (total) => ({ ...none, input: total, totalTokens: total, cost: none });

// What a provider streams for a summary.
export const answer = {
  role: 'assistant', content: [{ type: 'text', text: SUMMARY }], stopReason: 'stop', usage: usageOf(1), timestamp: 0,
};

export class Pi extends Session {
  constructor({ window, reserveTokens, keepRecentTokens }) {
    super({ window, compaction: { enabled: true, reserveTokens, keepRecentTokens } });
    this.places = new Map();
    this.entries = [];
  }

  push(entry) {
    const id = `e${this.entries.length}`;
    const timestamp = new Date(this.entries.length * 1000).toISOString();
    this.entries.push({ id, parentId: this.entries.at(-1)?.id ?? null, timestamp, ...entry });
  }

  async add(at, m) {
    if (m.role === 'user' && this.inputs.at(-1)?.role === 'assistant') await this.endOfTurn();
    await super.add(at, m);
    if (m.role !== 'system') this.push({ type: 'message', message: this.state.at(-1) });
  }

  native(at, m) {
    let made = { role: m.role, content: m.text, timestamp: at * 1000 };
    if (m.role === 'assistant') {
      const calls = m.calls.map((c) => ({ type: 'toolCall', id: c.id, name: c.name, arguments: c.args }));
      const text = m.text ? [{ type: 'text', text: m.text }] : [];
      this.total = this.usage + tokens(m.text + callsKey(m.calls.map((c) => [c.name, c.args])));
      made = { ...made, content: [...text, ...calls], stopReason: 'stop', usage: usageOf(this.total) };
      Object.assign(made, { provider: 'stub', model: 'stub', api: 'stub' });
    } else if (m.role === 'tool') {
      made = { ...made, role: 'toolResult', toolCallId: m.call, toolName: m.name, content: [{ type: 'text', text: m.text }] };
    }
    this.places.set(made, at);
    return made;
  }

  async compactTo(prepareCompaction, compact) {
    const prepared = prepareCompaction(this.entries, this.settings.compaction);
    if (!prepared) return;
    const { summary, firstKeptEntryId, tokensBefore, details } = await compact(prepared);
    this.push({ type: 'compaction', summary, firstKeptEntryId, tokensBefore, details });
  }

  view(m) {
    const role = m.role === 'toolResult' ? 'tool' : m.role;
    const parts = typeof m.content === 'string' ? [{ type: 'text', text: m.content }] : m.content;
    const text = parts.map((p) => (p.type === 'text' ? p.text : '')).join('');
    const calls = parts.filter((p) => p.type === 'toolCall').map((p) => [p.name, p.arguments]);
    return [[this.places.get(m), role, text, callsKey(calls)]];
  }
}
