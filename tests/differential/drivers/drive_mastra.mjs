// Mastra's TokenLimiterProcessor at its stage right before the model call. A view only. Tokens of text by the stand-in.
import { Session, Stop, callsKey, library, tokens } from '../harness.mjs';

const { TokenLimiterProcessor } = await library('@mastra/core/dist/processors/index.js');

class Mastra extends Session {
  native(at, m) {
    const providerOptions = { place: { at } };
    if (m.role === 'system') return { role: 'system', content: m.text, providerOptions };
    if (m.role === 'tool') {
      const part = { type: 'tool-result', toolCallId: m.call, toolName: m.name, output: { type: 'text', value: m.text } };
      return { role: 'tool', content: [part], providerOptions };
    }
    const calls = (m.calls ?? []).map((c) => ({ type: 'tool-call', toolCallId: c.id, toolName: c.name, input: c.args }));
    const text = m.text || m.role === 'user' ? [{ type: 'text', text: m.text }] : [];
    return { role: m.role, content: [...text, ...calls], providerOptions };
  }

  async ask() {
    const prompt = [...this.system, ...this.state];
    const limiter = new TokenLimiterProcessor(this.settings);
    limiter.countTokens = tokens;
    try {
      return (await limiter.processLLMRequest({ prompt }))?.prompt ?? prompt;
    } catch (e) {
      throw /TokenLimiterProcessor/.test(e.message) ? new Stop(e.message) : e;
    }
  }

  view({ role, content, providerOptions }) {
    const parts = typeof content === 'string' ? [{ type: 'text', text: content }] : content;
    const text = parts.map((p) => (p.type === 'text' ? p.text : p.type === 'tool-result' ? p.output.value : '')).join('');
    const calls = parts.filter((p) => p.type === 'tool-call').map((p) => [p.toolName, p.input]);
    return [[providerOptions.place.at, role, text, callsKey(calls)]];
  }
}

const policy = (settings) => ['@mastra/core', settings, Mastra];
export const POLICIES = {
  'mastra-token-limiter': policy({ limit: 5000 }),
  'mastra-token-limiter-contiguous': policy({ limit: 5000, trimMode: 'contiguous' }),
};
