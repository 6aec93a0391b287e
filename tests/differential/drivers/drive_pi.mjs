// pi 0.73.1: it compacts at the end of a turn, never amid one.
import { library } from '../harness.mjs';
import { Pi, answer } from './pi.mjs';

const at = '@mariozechner/pi-coding-agent/dist/core';
const { prepareCompaction, compact, shouldCompact } = await library(`${at}/compaction/compaction.js`);
const { buildSessionContext } = await library(`${at}/session-manager.js`);
const { convertToLlm } = await library(`${at}/messages.js`);
const { registerApiProvider } = await library('@mariozechner/pi-ai/dist/index.js');

const streamSimple = () => ({ result: async () => answer });
registerApiProvider({ api: 'stub', stream: streamSimple, streamSimple });

class Pi073 extends Pi {
  async endOfTurn() {
    if (!shouldCompact(this.total, this.settings.window, this.settings.compaction)) return;
    await this.compactTo(prepareCompaction, (prepared) => compact(prepared, { api: 'stub' }, 'key'));
  }

  policy() {
    return convertToLlm(buildSessionContext(this.entries).messages);
  }
}

const policy = (settings) => ['@mariozechner/pi-coding-agent', settings, Pi073];
export const POLICIES = {
  'pi-0.73': policy({ window: 2500, reserveTokens: 700, keepRecentTokens: 900 }),
  'pi-0.73-small-tail': policy({ window: 1500, reserveTokens: 300, keepRecentTokens: 300 }),
};
