// Cline's SDK: compaction before a model call, basic (no model) and agentic (a local server plays the model).
// Its own estimator: the characters of a message's JSON by three. Results of parallel calls are one message.
import { createServer } from 'node:http';
import { Session, SUMMARY, callsKey, library } from '../harness.mjs';

const { createContextCompactionPrepareTurn } = await library('@cline/core/dist/index.js');

const server = createServer((request, response) => {
  request.resume();
  request.on('end', () => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = (delta, finish) =>
      `data: ${JSON.stringify({ id: 'x', object: 'chat.completion.chunk', created: 0, model: 'm', choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;
    response.end(chunk({ role: 'assistant', content: SUMMARY }, null) + chunk({}, 'stop') + 'data: [DONE]\n\n');
  });
});
await new Promise((done) => server.listen(0, '127.0.0.1', done));
server.unref();

// Ids of messages are the host's: of one length here.
const id = (at) => `m${String(at).padStart(3, '0')}`;

class Cline extends Session {
  mergeResults = true;

  constructor({ strategy, preserveRecentTokens, ...model }) {
    super({});
    this.model = { id: 'm', info: { id: 'm', ...model } };
    this.places = new Map();
    const baseUrl = `http://127.0.0.1:${server.address().port}/v1`;
    this.prepare = createContextCompactionPrepareTurn({
      providerId: 'openai-compatible', modelId: 'm', apiKey: 'unused', baseUrl, sessionId: 's', modelInfo: this.model.info,
      compaction: { enabled: true, strategy, ...(preserveRecentTokens ? { preserveRecentTokens } : {}) },
    });
  }

  native(at, m) {
    if (m.role === 'system') return { role: 'system', content: m.text, id: id(at) };
    if (m.role === 'tool') {
      this.places.set(m.call, at);
      return { id: id(at), role: 'user', content: [{ type: 'tool_result', tool_use_id: m.call, content: m.text }] };
    }
    const calls = (m.calls ?? []).map((c) => ({ type: 'tool_use', id: c.id, name: c.name, input: c.args }));
    return { id: id(at), role: m.role, content: [...(m.text ? [{ type: 'text', text: m.text }] : []), ...calls] };
  }

  merge(before, native) {
    before.content.push(...native.content);
  }

  async policy() {
    const made = await this.prepare({
      agentId: 'a', conversationId: 'c', parentAgentId: null, iteration: 1, messages: this.state, apiMessages: this.state,
      abortSignal: new AbortController().signal, systemPrompt: this.system.map((m) => m.content).join(''), tools: [],
      model: this.model,
    });
    if (made?.messages) this.state = made.messages;
    return this.state;
  }

  view(m) {
    const parts = typeof m.content === 'string' ? [{ type: 'text', text: m.content }] : m.content;
    const results = parts.filter((p) => p.type === 'tool_result');
    const at = m.metadata?.kind === 'compaction_summary' || !m.id ? null : Number(m.id.slice(1));
    if (results.length) return results.map((r) => [this.places.get(r.tool_use_id), 'tool', r.content, '']);
    const text = parts.map((p) => (p.type === 'text' ? p.text : '')).join('');
    const calls = parts.filter((p) => p.type === 'tool_use').map((p) => [p.name, p.input]);
    return [[at, m.role, text, callsKey(calls)]];
  }
}

const policy = (settings) => ['@cline/core', settings, Cline];
export const POLICIES = {
  'cline-basic': policy({ strategy: 'basic', contextWindow: 8000 }),
  'cline-basic-output': policy({ strategy: 'basic', contextWindow: 8000, maxInputTokens: 6000, maxTokens: 1000 }),
  'cline-agentic': policy({ strategy: 'agentic', contextWindow: 8000, preserveRecentTokens: 2000 }),
};
