// Gemini CLI: compression, then masking, in the order of its client. Both see the history without the request that is
// about to be sent: the user's text or the results since the last reply. Its own estimator; the provider reports usage.
import { Session, SUMMARY, callsKey, library } from '../harness.mjs';

const at = '@google/gemini-cli-core/dist/src';
const { ChatCompressionService } = await library(`${at}/context/chatCompressionService.js`);
const { ToolOutputMaskingService } = await library(`${at}/context/toolOutputMaskingService.js`);
const { CompressionStatus } = await library(`${at}/core/turn.js`);
const { estimateTokenCountSync } = await library(`${at}/utils/tokenCalculation.js`);
const { debugLogger } = await library(`${at}/utils/debugLogger.js`);
debugLogger.debug = debugLogger.log = () => {};
Math.random = () => 0.5; // names of files stand in the prompt
Date.prototype.toLocaleDateString = () => 'Monday, January 1, 2024';

const LIMIT = 1048576; // of gemini-2.5-pro: thresholds are shares of it
const PLACE = Symbol('place'); // copied with its object, and not in its JSON
const text = (parts) => parts.map((p) => p.text ?? '').join('');

class Gemini extends Session {
  mergeResults = true;

  constructor(settings) {
    super(settings);
    Object.assign(this, { failed: false, last: 0, pending: 0, held: 0 });
    const summary = { candidates: [{ content: { parts: [{ text: SUMMARY }] } }] };
    let ids = 0;
    const stubs = {
      getHookSystem: () => undefined,
      getCompressionThreshold: async () => settings.threshold / LIMIT,
      getNextCompressionTruncationId: () => (ids += 1),
      getTruncateToolOutputThreshold: () => settings.truncate ?? 40000,
      getBaseLlmClient: () => ({ generateContent: async () => summary }),
      getToolOutputMaskingConfig: async () => settings.masking,
      getSessionId: () => 's',
      storage: { getProjectTempDir: () => 'outputs' },
      getActiveModel: () => 'gemini-2.5-pro',
      getSessionMemory: () => '',
    };
    // All else that the services ask of the settings is telemetry and the first prompt's text: off.
    stubs.config = new Proxy(stubs, { get: (own, key) => own[key] ?? (() => false) });
    this.config = stubs.config;
  }

  native(at, m) {
    const parts = m.text ? [{ text: m.text }] : [];
    for (const c of m.calls ?? []) parts.push({ functionCall: { id: c.id, name: c.name, args: c.args } });
    const response = { id: m.call, name: m.name, response: { output: m.text }, [PLACE]: at };
    const role = m.role === 'assistant' ? 'model' : 'user';
    return { role, parts: m.role === 'tool' ? [{ functionResponse: response }] : parts, [PLACE]: at };
  }

  merge(before, native) {
    before.parts.push(...native.parts);
  }

  async add(at, m) {
    if (m.role === 'assistant') this.last = this.usage;
    await super.add(at, m);
    this.pending = m.role === 'assistant' ? 0 : this.pending + (this.state.length > this.held ? 1 : 0);
    this.held = this.state.length;
  }

  async policy() {
    const cut = this.state.length - this.pending;
    let history = this.state.slice(0, cut);
    const request = this.state.slice(cut);
    if (this.settings.threshold) history = await this.compressed(history);
    if (this.settings.masking) history = (await new ToolOutputMaskingService().mask(history, this.config)).newHistory;
    this.state = [...history, ...request];
    return this.state;
  }

  async compressed(history) {
    const chat = { getHistory: () => history, getLastPromptTokenCount: () => this.last };
    const { newHistory, info } = await new ChatCompressionService().compress(
      chat, 'p', false, 'gemini-2.5-pro', this.config, this.failed,
    );
    if (info.compressionStatus === CompressionStatus.COMPRESSION_FAILED_INFLATED_TOKEN_COUNT) this.failed = true;
    if (!newHistory) return history;
    this.last = estimateTokenCountSync(newHistory.flatMap((c) => c.parts));
    return newHistory;
  }

  view(c) {
    const responses = c.parts.filter((p) => p.functionResponse);
    if (responses.length) {
      return responses.map(({ functionResponse: f }) => [f[PLACE], 'tool', f.response.output, '']);
    }
    const calls = c.parts.filter((p) => p.functionCall).map((p) => [p.functionCall.name, p.functionCall.args]);
    return [[c[PLACE], c.role === 'model' ? 'assistant' : 'user', text(c.parts), callsKey(calls)]];
  }
}

const policy = (settings) => ['@google/gemini-cli-core', settings, Gemini];
const masking = { protectionThresholdTokens: 2000, minPrunableThresholdTokens: 1000, protectLatestTurn: true };
export const POLICIES = {
  'gemini-cli-compression': policy({ threshold: 1500 }),
  'gemini-cli-masking': policy({ masking }),
  'gemini-cli': policy({ threshold: 6000, masking }),
};
