// Vercel's AI SDK: pruneMessages. A view only: the messages stay.
import { Session, callsKey, library } from '../harness.mjs';

const { pruneMessages } = await library('ai/dist/index.mjs');

class Vercel extends Session {
  native(at, m) {
    const options = { place: { at } };
    if (m.role === 'tool') {
      const part = { type: 'tool-result', toolCallId: m.call, toolName: m.name, output: { type: 'text', value: m.text } };
      return { role: 'tool', content: [part], providerOptions: options };
    }
    if (m.role !== 'assistant') return { role: m.role, content: m.text, providerOptions: options };
    const calls = m.calls.map((c) => ({ type: 'tool-call', toolCallId: c.id, toolName: c.name, input: c.args }));
    const text = m.text ? [{ type: 'text', text: m.text }] : [];
    return { role: 'assistant', content: [...text, ...calls], providerOptions: options };
  }

  policy() {
    return pruneMessages({ messages: this.state, ...this.settings });
  }

  view({ role, content, providerOptions }) {
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    const text = parts.map((p) => (p.type === 'text' ? p.text : p.type === 'tool-result' ? p.output.value : '')).join('');
    const calls = parts.filter((p) => p.type === 'tool-call').map((p) => [p.toolName, p.input]);
    return [[providerOptions.place.at, role, text, callsKey(calls)]];
  }
}

const policy = (settings) => ['ai', settings, Vercel];
export const POLICIES = {
  'vercel-prune-last-message': policy({ toolCalls: 'before-last-message' }),
  'vercel-prune-last-10': policy({ toolCalls: 'before-last-10-messages' }),
  'vercel-prune-last-10-bash': policy({ toolCalls: [{ type: 'before-last-10-messages', tools: ['bash', 'search'] }] }),
  'vercel-prune-all-keep-empty': policy({ toolCalls: 'all', emptyMessages: 'keep' }),
};
