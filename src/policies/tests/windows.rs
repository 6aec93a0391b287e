//! Presets in other windows, worked out by hand.

use super::*;

/// What a key of a stage is, once the window is known.
fn key(policy: &Policy, stage: usize, part: &str, key: &str) -> i64 {
    let stage = &policy.resolved().unwrap().stages[stage];
    let (table, _) = stage.part(part).unwrap();
    table.get(key).and_then(Value::as_integer).unwrap_or(0)
}

fn in_tokens(preset: &str, window: u64) -> Policy {
    find(preset).unwrap().policy.in_tokens(window).0
}

/// Kimi CLI keeps 50,000 of 262,144 tokens free, and Claude Code 33,000 of 200,000: as constants where they leave half of a window,
/// and else as shares. They were constants in any window, and nothing was left of a small one.
#[test]
fn what_is_kept_free_leaves_something() {
    let below = |preset: &str, window| {
        let policy = in_tokens(preset, window);
        (policy.reserve as i64, key(&policy, 0, "trigger", "below"))
    };
    assert_eq!([128_000, 100_000].map(|window| below("kimi-cli", window)), [(0, 50_000), (0, 50_000)]);
    assert_eq!(below("kimi-cli", 65_536), (0, 12_500));
    assert_eq!([66_000, 20_000].map(|window| below("claude-code", window)), [(20_000, 13_000), (2000, 1300)]);
    let half = find("claude-code").unwrap().policy.clone().in_window(40_000.0);
    assert_eq!((half.reserve, key(&half, 0, "trigger", "below")), (4000, 2600));
    // Qwen's own rule: below 33,000 tokens the share alone holds, and 3,000 tokens more.
    let qwen = |window| [0, 1].map(|stage| key(&in_tokens("qwen-code", window), stage, "trigger", "below"));
    assert_eq!([qwen(33_001), qwen(33_000)], [[33_000, 23_000], [0, 1950]]);
    let half = find("qwen-code").unwrap().policy.clone().in_window(40_000.0);
    assert_eq!([0, 1].map(|stage| key(&half, stage, "trigger", "below")), [6600, 4600]);
}

#[test]
fn shares_of_the_window_are_shares() {
    let cline = |window| key(&in_tokens("cline-legacy", window), 0, "trigger", "below");
    assert_eq!(
        [64_000, 100_000, 128_000, 200_000, 1_000_000].map(cline),
        [27_000, 20_000, 30_000, 40_000, 40_000]
    );
    let aider = |window| {
        let policy = in_tokens("aider", window);
        (key(&policy, 0, "scope", "above"), key(&policy, 0, "strategy", "input_tokens"))
    };
    assert_eq!([8000, 64_000, 200_000].map(aider), [(1024, 7488), (4000, 63_488), (8192, 199_488)]);
    assert_eq!(key(&in_tokens("deepagents", 128_000), 0, "scope", "keep_tokens"), 12_800);
    assert_eq!(key(&in_tokens("crewai", 128_000), 0, "strategy", "piece_tokens"), 108_800);
    let crush = |window| key(&in_tokens("crush", window), 0, "trigger", "below");
    assert_eq!([200_000, 200_001].map(crush), [40_000, 20_000]);
    // What is set is no rule any more.
    let mut set = in_tokens("crush", 200_000);
    set.set("trigger.below", &Value::Integer(7)).unwrap();
    assert_eq!(key(&set, 0, "trigger", "below"), 7);
}

#[test]
fn a_limit_that_leaves_nothing_is_told() {
    let mut policy = find("claude-code").unwrap().policy.clone();
    policy.window = 33_000;
    let error = policy.check().unwrap_err().to_string();
    assert!(error.contains("stage 1 would fire at every call"), "{error}");
}
