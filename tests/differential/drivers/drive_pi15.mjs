// pi 1.5.2: it compacts at the end of a turn, and before each further model call of one.
import { library } from '../harness.mjs';
import { Pi, answer } from './pi.mjs';

const at = '@earendil-works/pi-coding-agent/dist/core';
const { prepareCompaction, compact, shouldCompact, estimateProjectedContextTokens } = await library(
  `${at}/compaction/compaction.js`,
);
const { buildSessionProjection } = await library(`${at}/session-manager.js`);
const { convertToLlm } = await library(`${at}/messages.js`);

const stream = async () => ({ result: async () => answer });

class Pi15 extends Pi {
  run() {
    const with_stream = (p) => compact(p, {}, 'key', undefined, undefined, undefined, undefined, stream);
    return this.compactTo(prepareCompaction, with_stream);
  }

  async endOfTurn() {
    if (shouldCompact(this.total, this.settings.window, this.settings.compaction)) await this.run();
  }

  async policy() {
    if (this.inputs.at(-1)?.role === 'tool') {
      const { tokens } = estimateProjectedContextTokens(buildSessionProjection(this.entries), this.entries);
      if (shouldCompact(tokens, this.settings.window, this.settings.compaction)) await this.run();
    }
    return convertToLlm(buildSessionProjection(this.entries).messages);
  }
}

const policy = (settings) => ['@earendil-works/pi-coding-agent', settings, Pi15];
export const POLICIES = {
  'pi-1.5': policy({ window: 6000, reserveTokens: 1500, keepRecentTokens: 1500 }),
  'pi-1.5-small-tail': policy({ window: 4000, reserveTokens: 500, keepRecentTokens: 300 }),
};
