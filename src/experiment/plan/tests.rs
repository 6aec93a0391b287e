//! Experiment files, and what is told of wrong ones.

use super::*;
use crate::params::{self, Param};

#[test]
fn parameters_of_names_say_which() {
    let told = |strategy: &str| {
        let text = format!("name = \"x\"\n[[strategies]]\n{strategy}\n[[triggers]]\nname = \"turns\"\n");
        Plan::parse("x.toml", &text, &Catalogue::built_in()).unwrap_err().to_string()
    };
    for value in ["true", "3", "0.5", "[true, false]", "{ list = [1] }"] {
        let error = told(&format!("name = \"prune-importance\"\npair = {value}"));
        assert!(error.ends_with("of strategy `prune-importance`: expected `least` or `most`"), "{error}");
    }
    let error = told("name = \"prune-importance\"\nrate = true");
    assert!(
        error.ends_with(
            "`rate = true` of strategy `prune-importance`: expected one of `auto`, `rules`, `model`"
        )
    );
    // None of all parameters of all strategies and triggers is told in words of the code.
    let value = |of: &str, name: &str, key: &str, value: &str| {
        let grid = format!("[[{of}]]\nname = \"{name}\"\n{key} = {value}\n");
        let rest = if of == "triggers" {
            "[[strategies]]\nname = \"mask\"\n"
        } else {
            "[[triggers]]\nname = \"turns\"\n"
        };
        Plan::parse("x.toml", &format!("name = \"x\"\n{grid}{rest}"), &Catalogue::built_in())
    };
    let built_in = Catalogue::built_in();
    let all = built_in.strategies.iter().map(|k| ("strategies", k));
    for (of, known) in all.chain(built_in.triggers.iter().map(|k| ("triggers", k))) {
        for key in known.keys() {
            for wrong in ["true", "-1", "0.5", "\"?\"", "{ list = [true] }", "1e300"] {
                if let Err(error) = value(of, known.name, key, wrong) {
                    let error = error.to_string();
                    let is_plain = ["unit variant", "string only", "u32", "f64", "0000000"]
                        .iter()
                        .all(|w| !error.contains(w));
                    assert!(is_plain, "{error}");
                }
            }
        }
    }
}

params::params! {
    #[expect(dead_code, reason = "it is read, and no more")]
    struct Mask {
        /// Turns that stay.
        keep_last: u32 = 10,
        /// A share.
        share: f64 = 0.5 (from 0 to 1),
        /// A list.
        weights: Vec<u32> = [],
    }
}

fn catalogue() -> Catalogue<'static> {
    let plain = |name, params| Known { name, params, takes_model: false, check: Box::new(|_| Ok(false)) };
    Catalogue {
        strategies: vec![
            plain("full", &[]),
            Known {
                takes_model: false,
                name: "mask",
                params: Mask::PARAMS,
                check: Box::new(|table| Mask::of(table).map(|_| false)),
            },
            plain("truncate", const { &[Param::any("keep_last", "3")] }),
            Known { takes_model: true, ..plain("summary", &[]) },
        ],
        triggers: vec![
            plain("never", &[]),
            plain("turns", const { &[Param::any("n", "21"), Param::any("keep", "0")] }),
            plain("tokens", const { &[Param::any("window", "32000")] }),
        ],
        formats: vec!["swe-agent", "openai-chat"],
    }
}

fn parse(text: &str) -> anyhow::Result<Plan> {
    Plan::parse("experiment.toml", text, &catalogue())
}

fn labels(text: &str) -> Vec<String> {
    parse(text).unwrap().variants.into_iter().map(|v| v.label).collect()
}

fn error(text: &str) -> String {
    format!("{:#}", parse(text).unwrap_err())
}

#[test]
fn lists_are_crossed_and_full_stands_once() {
    let text = r#"
        name = "first"
        [[strategies]]
        name = "full"
        [[strategies]]
        name = "mask"
        keep_last = [5, 10]
        [[triggers]]
        name = "turns"
        n = [1, 21]
        [[triggers]]
        name = "tokens"
    "#;
    insta::assert_snapshot!(labels(text).join("\n"), @r"
    full @ never
    mask(keep_last=5) @ turns(n=1)
    mask(keep_last=5) @ turns(n=21)
    mask(keep_last=5) @ tokens
    mask(keep_last=10) @ turns(n=1)
    mask(keep_last=10) @ turns(n=21)
    mask(keep_last=10) @ tokens
    ");
}

#[test]
fn a_list_as_value_is_not_a_grid() {
    let text = r#"
        name = "first"
        seed = 1
        strategies = [
            { name = "mask", weights = { list = [1, 2] } },
            { name = "mask", weights = [{ list = [] }, { list = [3] }], seed = [1, 2] },
        ]
        triggers = [{ name = "turns" }]
    "#;
    insta::assert_snapshot!(labels(text).join("\n"), @r"
    full @ never
    mask(weights=[1, 2]) @ turns
    mask(weights=[]) @ turns
    mask(weights=[]) @ turns #2
    mask(weights=[3]) @ turns
    mask(weights=[3]) @ turns #2
    ");
}

#[test]
fn full_is_always_there() {
    let rest = "[[strategies]]\nname = \"mask\"\n[[triggers]]\nname = \"turns\"";
    let plan = parse(&format!("name = \"x\"\nseed = 3\n{rest}")).unwrap();
    let labels: Vec<&str> = plan.variants.iter().map(|v| v.label.as_str()).collect();
    assert_eq!(labels, ["full @ never", "mask @ turns"]);
    assert_eq!(plan.notes, ["experiment.toml: full added: every table needs its baseline"]);
    // It is the very one that a grid with `full` holds, and is not left out either.
    let full = "[[strategies]]\nname = \"full\"\n";
    let named = parse(&format!("name = \"x\"\nseed = 3\n{full}{rest}")).unwrap();
    assert_eq!(named.variants, plan.variants);
    assert!(named.notes.is_empty());
    let exclude = "[[exclude]]\nstrategy = \"full\"\n";
    let excluded = parse(&format!("name = \"x\"\nseed = 3\n{full}{exclude}{rest}")).unwrap();
    assert_eq!((excluded.variants, excluded.notes), (plan.variants, plan.notes));
}

#[test]
fn excluded_points_are_left_out() {
    let text = r#"
        name = "first"
        strategies = [{ name = "full" }, { name = "mask", keep_last = [5, 10] }, { name = "truncate" }]
        triggers = [{ name = "turns", n = [1, 21] }, { name = "tokens" }]
        [[exclude]]
        strategy = "full"
        trigger = "tokens"
        [[exclude]]
        strategy = "truncate"
        trigger.n = [1, 2]
        [[exclude]]
        strategy = "mask"
        "strategy.keep_last" = 5
        trigger.name = "turns"
        [[exclude]]
        strategy.keep_last = 99
    "#;
    insta::assert_snapshot!(labels(text).join("\n"), @r"
    full @ never
    mask(keep_last=5) @ tokens
    mask(keep_last=10) @ turns(n=1)
    mask(keep_last=10) @ turns(n=21)
    mask(keep_last=10) @ tokens
    truncate @ turns(n=21)
    truncate @ tokens
    ");
    let notes = parse(text).unwrap().notes.join("\n");
    insta::assert_snapshot!(notes, @"experiment.toml:15: this exclude matches nothing");
}

#[test]
fn what_was_logged_stands_where_it_was_logged() {
    let text = |exclude: &str| {
        format!(
            r#"
            name = "first"
            strategies = [{{ name = "logged" }}, {{ name = "drop-all" }}]
            triggers = [{{ name = "turns" }}, {{ name = "logged" }}]
            {exclude}
            "#
        )
    };
    let parse = |exclude: &str| Plan::parse("experiment.toml", &text(exclude), &Catalogue::built_in());
    let told = parse("").unwrap_err().to_string();
    assert!(
        told.contains("strategy `logged` under trigger `turns`") && told.contains("[[exclude]]"),
        "{told}"
    );
    let plan = parse("[[exclude]]\nstrategy = \"logged\"\ntrigger.name = \"turns\"").unwrap();
    let labels: Vec<&str> = plan.variants.iter().map(|v| v.label.as_str()).collect();
    assert_eq!(labels, ["full @ never", "logged @ logged", "drop-all @ turns", "drop-all @ logged"]);
}

#[test]
fn what_was_sent_stands_once_and_behind_the_baseline() {
    let labels = |plan: &Plan| plan.variants.iter().map(|v| v.label.clone()).collect::<Vec<_>>();
    let parse = |strategies: &str| {
        let text = format!(
            "name = \"x\"\nstrategies = [{strategies}]\ntriggers = [{{ name = \"turns\", n = [1, 2] }}]"
        );
        Plan::parse("experiment.toml", &text, &Catalogue::built_in()).unwrap()
    };
    let mask = ["mask @ turns(n=1)", "mask @ turns(n=2)"];
    let all = ["full @ never", "as-sent @ logged-edits", mask[0], mask[1]];
    let mut plan = parse(r#"{ name = "mask" }"#);
    let ids: Vec<String> = plan.variants.iter().map(|v| v.id.clone()).collect();
    assert!(plan.add_as_sent(&Catalogue::built_in()));
    assert_eq!(labels(&plan), all);
    let named = parse(r#"{ name = "full" }, { name = "as-sent" }, { name = "mask" }"#);
    assert_eq!(named.variants, plan.variants);
    // Those that were there before are the same, and it is added once.
    assert!([0, 2, 3].iter().zip(&ids).all(|(&i, id)| plan.variants[i].id == *id));
    assert!(!plan.add_as_sent(&Catalogue::built_in()));
    assert_eq!(labels(&plan), all);
    let alone = "name = \"x\"\nstrategies = [{ name = \"as-sent\" }]";
    let plan = Plan::parse("experiment.toml", alone, &Catalogue::built_in()).unwrap();
    assert_eq!(labels(&plan), all[..2]);
}

#[test]
fn an_exclude_takes_lists_of_names() {
    let text = |exclude: &str| {
        format!(
            r#"
            name = "first"
            strategies = [{{ name = "full" }}, {{ name = "mask" }}, {{ name = "truncate" }}]
            triggers = [{{ name = "turns" }}, {{ name = "tokens" }}, {{ name = "never" }}]
            [[exclude]]
            {exclude}
            "#
        )
    };
    let some = "strategy = [\"mask\", \"truncate\"]\ntrigger = [\"turns\", \"never\"]";
    assert_eq!(labels(&text(some)), ["full @ never", "mask @ tokens", "truncate @ tokens"]);
    let some = "strategy.name = [\"mask\", \"truncate\"]\nstrategy.keep_last = 10";
    assert_eq!(
        labels(&text(some)),
        ["full @ never", "truncate @ turns", "truncate @ tokens", "truncate @ never"]
    );
    let mut errors = String::new();
    for exclude in [
        "strategy = [\"mask\",\n\"trunkate\"]",
        "trigger = []",
        "strategy.name = [\"mask\", \"full\"]\nstrategy.windw = 1",
    ] {
        errors.push_str(&error(&text(exclude)));
        errors.push('\n');
    }
    insta::assert_snapshot!(errors, @r"
    experiment.toml:7: unknown strategy `trunkate`
    hint: did you mean `truncate`? (known: full, mask, truncate, summary)
    experiment.toml:6: `trigger` has no value
    hint: a list is a grid over its values; a list as value is `{ list = [] }`
    experiment.toml:7: unknown key `windw` of strategy `mask` or `full`
    hint: known: keep_last, share, weights
    ");
}

#[test]
fn ids_hold_what_runs_and_nothing_else() {
    let ids = |strategy: &str| -> Vec<String> {
        let text =
            format!("name = \"x\"\nseed = 1\nstrategies = [{strategy}]\ntriggers = [{{ name = \"turns\" }}]");
        let variants = parse(&text).unwrap().variants;
        variants.into_iter().filter(|v| v.strategy != "full").map(|v| v.id).collect()
    };
    let default = ids(r#"{ name = "mask" }"#);
    insta::assert_snapshot!(default[0], @"0acdf28d8ee743cf");
    // A default written out is the same variant, and so is a whole number for a fraction.
    assert_eq!(ids(r#"{ share = 0.5, keep_last = 10, name = "mask" }"#), default);
    assert_eq!(ids(r#"{ name = "mask", share = [1, 1.0] }"#).len(), 1);
    let others = [
        r#"{ name = "mask", keep_last = 11 }"#,
        r#"{ name = "mask", seed = 2 }"#,
        r#"{ name = "truncate" }"#,
    ];
    for other in others {
        assert_ne!(ids(other), default, "{other}");
    }
    assert_eq!(default[0].len(), 16);
    let models = ids(r#"{ name = "summary", model = ["none", "m"] }"#);
    assert_eq!(models[0], ids(r#"{ name = "summary" }"#)[0]);
    assert_ne!(models[0], models[1]);
}

#[test]
fn the_rest_of_the_file_is_read() {
    let plan = parse(
        r#"
        name = "first"
        tokenizer = "cl100k"
        seed = 7
        shadow_seeds = 2
        reference_tails = [5, 3, 5]
        [prices]
        name = "p"
        fresh = 3
        cache_write = 3.75
        cache_read = 0.3
        output = 15
        [data]
        path = "d"
        formats = ["swe-agent"]
        min_turns = 5
        [[strategies]]
        name = "full"
        "#,
    )
    .unwrap();
    assert_eq!((plan.tokenizer.as_str(), plan.seed, plan.shadow_seeds), ("cl100k", 7, 2));
    assert_eq!((plan.reference_tails.as_slice(), plan.prices.fresh), (&[3, 5][..], 3.0));
    assert_eq!(plan.prices.cache_lifetime, 300.0);
    let long = parse(
        "name = 'x'\n[prices]\nname = 'p'\nfresh = 1\ncache_write = 1\ncache_read = 1\noutput = 1\ncache_lifetime = 3600\n[[strategies]]\nname = 'full'",
    );
    assert_eq!(long.unwrap().prices.cache_lifetime, 3600.0);
    assert_eq!(plan.data, Some(PathBuf::from("d")));
    assert!(plan.filter.takes("id", "swe-agent", "a/b", 5));
    assert!(!plan.filter.takes("id", "swe-agent", "a/b", 4));
    assert!(!plan.filter.takes("id", "openai-chat", "a/b", 5));
    assert_eq!(plan.variants[0].seed, 7);
}

#[test]
fn wrong_keys_name_file_line_and_the_nearest_right_one() {
    let mut all = String::new();
    for text in [
        "name = \"x\"\nshadow_sedes = 3",
        "name = \"x\"\n\n[price]\nfresh = 1",
        "name = \"x\"\n[prices]\nfresh = 1\ncached_read = 2",
        "name = \"x\"\n[prices]\nfresh = 1",
        "name = \"x\"\n[data]\nformat = [\"a\"]",
        "name = \"x\"\n[data]\nformats = [\n\"swe-agent\",\n\"open-chat\"]",
        "name = \"x\"\npartners = [\"other_repo\"]",
        "name = \"x\"\n[scores.ask]\nprobe = \"m\"",
        "name = \"x\"\n[scores]\nscorer = [\"m\", \"m\"]",
        "name = \"x\"\n[scores]\nscorer = \"m\"\nask = { judge = \"m\" }",
        "name = \"x\"\n[[strategies]]\nname = \"msak\"",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\n# a remark\nkeep_lst = 3",
        "name = \"x\"\n[[strategies]]\nkeep_last = 3",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[triggers]]\nname = \"turns\"\nmodel = \"m\"",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\nstrategie = \"full\"",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\ntrigger = \"turn\"",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]\nstrategy.keep = 1",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\n[[exclude]]",
    ] {
        all.push_str(&error(text));
        all.push_str("\n\n");
    }
    insta::assert_snapshot!(all, @r"
    experiment.toml:2: unknown key `shadow_sedes` of the file
    hint: did you mean `shadow_seeds`? (known: name, tokenizer, seed, shadow_seeds, reference_tails, partners, prices, data, scores, contexts, strategies, triggers, exclude, policies)

    experiment.toml:3: unknown key `price` of the file
    hint: did you mean `prices`? (known: name, tokenizer, seed, shadow_seeds, reference_tails, partners, prices, data, scores, contexts, strategies, triggers, exclude, policies)

    experiment.toml:4: unknown key `cached_read` of `prices`
    hint: did you mean `cache_read`? (known: name, fresh, cache_write, cache_write_1h, cache_read, output, cache_lifetime, cache_gone, dearer_above, dearer_prompt, dearer_output, own, hour)

    experiment.toml:2: `prices` lacks `name`
    hint: its keys are name, fresh, cache_write, cache_write_1h, cache_read, output, cache_lifetime, cache_gone, dearer_above, dearer_prompt, dearer_output, own, hour

    experiment.toml:3: unknown key `format` of `data`
    hint: did you mean `formats`? (known: path, formats, ids, sources, min_turns, max_turns, sample, link, link_sessions)

    experiment.toml:5: unknown format `open-chat`
    hint: did you mean `openai-chat`? (known: swe-agent, openai-chat)

    experiment.toml:2: unknown kind of partner `other_repo`
    hint: did you mean `other_repository`? (known: other_repository, same_repository)

    experiment.toml:3: unknown key `probe` of `ask`
    hint: did you mean `probes`? (known: likelihood, probes, judge, outcomes)

    experiment.toml:3: `scorer` names `m` twice

    experiment.toml:4: `scorer` is asked for everything, `ask` says who is asked for what: give one of them

    experiment.toml:3: unknown strategy `msak`
    hint: did you mean `mask`? (known: full, mask, truncate, summary)

    experiment.toml:5: unknown key `keep_lst` of strategy `mask`
    hint: did you mean `keep_last`? (known: keep_last, share, weights, name, seed)

    experiment.toml:2: a strategy without a name

    experiment.toml:5: unknown key `model` of trigger `turns`
    hint: known: n, keep, name

    experiment.toml:4: unknown key `strategie` of `exclude`
    hint: did you mean `strategy`? (known: strategy, trigger, strategy.<parameter>, trigger.<parameter>)

    experiment.toml:4: unknown trigger `turn`
    hint: did you mean `turns`? (known: never, turns, tokens)

    experiment.toml:4: unknown key `keep` of any strategy
    hint: did you mean `keep_last`? (known: keep_last, share, weights)

    experiment.toml:3: an empty `exclude` would match the whole grid
    ");
}

/// The program's own triggers: each is named once, without names of types.
#[test]
fn refused_parameters_of_triggers() {
    let told = |lines: &str| {
        let text = format!("name = \"x\"\nstrategies = [{{ name = \"full\" }}]\n[[triggers]]\n{lines}");
        match Plan::parse("a.toml", &text, &Catalogue::built_in()) {
            Ok(_) => String::new(),
            Err(error) => error.to_string(),
        }
    };
    for (lines, error) in [
        ("name = \"subtask\"\nedits = 0", "a.toml:5: `edits = 0` of trigger `subtask`: must be at least 1"),
        (
            "name = \"subtask\"\nedits = -1",
            "a.toml:5: `edits = -1` of trigger `subtask`: invalid value: integer `-1`, expected a whole number of 0 or more",
        ),
        (
            "name = \"subtask\"\nedits = 9999999999",
            "a.toml:5: `edits = 9999999999` of trigger `subtask`: invalid value: integer `9999999999`, expected a smaller whole number",
        ),
        (
            "name = \"staleness\"\nrecent = 5\nbatch = 0",
            "a.toml:6: `batch = 0` of trigger `staleness`: must be at least 1",
        ),
        (
            "name = \"staleness\"\nthreshold = [0.5, 1.5]",
            "a.toml:5: `threshold = 1.5` of trigger `staleness`: must be between 0 and 1",
        ),
        (
            "name = \"staleness\"\nthreshold = \"high\"",
            "a.toml:5: `threshold = \"high\"` of trigger `staleness`: invalid type: string \"high\", expected a number",
        ),
        (
            "name = \"boundary\"\nfile = false\nmodule = false\ntest = false\napi = false",
            "a.toml:4: trigger `boundary`: it never fires: one of `file`, `module`, `test`, `api` must be true",
        ),
        (
            "name = \"intent\"\ntransitions = \"verify-verify\"",
            "a.toml:5: `transitions = \"verify-verify\"` of trigger `intent`: `verify-verify` in parameter `transitions` is no transition\nhint: write FROM-TO, two different ones of explore, debug, implement, verify, document, refactor",
        ),
        ("name = \"hybrid\"\nboundary = false\nintent = false\nstaleness = false\nsubtask = false", ""),
    ] {
        assert_eq!(told(lines), error);
    }
}

#[test]
fn wrong_values_name_file_and_line() {
    let mut all = String::new();
    for text in [
        "name = 3",
        "seed = -1",
        "seed = 1.5",
        "reference_tails = [3, \"x\"]",
        "name = \"x\"\nreference_tails = []",
        "name = \"x\"\nshadow_seeds = 0",
        "prices = 3",
        "[prices]\nfresh = -1",
        "name = \"x\"\nstrategies = 3",
        "name = \"x\"\n[strategies]\nname = \"mask\"",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 0.5\nkeep_last = [3, \"x\"]",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 2",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nkeep_last = []",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nweights = [[1]]",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = inf",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"\nshare = 2020-01-01",
        "name = \"x\"\n[[strategies]]\nname = \"mask\"",
        "name = \"x\"",
        "",
        "name = \"x\"\nseed = = 3",
        "name = \"x\"\nname = \"y\"",
        "name = \"x\"\nstrategies = [{ name = \"full\" }]\ntriggers = [{ name = \"turns\" }]\nexclude = [{ strategy = \"full\" }]",
    ] {
        all.push_str(&error(text));
        all.push_str("\n\n");
    }
    insta::assert_snapshot!(all, @r#"
    experiment.toml:1: `name` is a whole number, expected a string

    experiment.toml:1: `seed = -1` is out of range

    experiment.toml:1: `seed` is a fraction, expected a whole number

    experiment.toml:1: `reference_tails` is a string, expected a whole number

    experiment.toml:2: `reference_tails` has no value, expected at least one number of turns

    experiment.toml:2: `shadow_seeds = 0`, expected at least 1

    experiment.toml:1: `prices` is a whole number, expected a section `[prices]`

    experiment.toml:2: `fresh = -1`: must be at least 0

    experiment.toml:2: `strategies` is a whole number, expected tables, each under `[[strategies]]`

    experiment.toml:2: `strategies` is a table, expected tables, each under `[[strategies]]`

    experiment.toml:5: `keep_last = "x"` of strategy `mask`: invalid type: string "x", expected a whole number of 0 or more

    experiment.toml:4: `share = 2` of strategy `mask`: must be between 0 and 1

    experiment.toml:4: `keep_last` has no value
    hint: a list is a grid over its values; a list as value is `{ list = [] }`

    experiment.toml:4: `weights` is a list, expected a value (a grid over lists is `[{ list = [..] }, ..]`)

    experiment.toml:4: `share` is a fraction, expected one that is finite

    experiment.toml:4: `share` is a date, expected a string, number, boolean or list

    experiment.toml: no triggers
    hint: add `[[triggers]]` with `name = "turns"`

    experiment.toml: no strategies
    hint: add `[[strategies]]` with `name = "mask"`

    experiment.toml: no name
    hint: begin with `name = "first"`

    experiment.toml:2: not TOML: extra `=`, expected nothing

    experiment.toml:2: not TOML: duplicate key

    experiment.toml: nothing is left of the grid after `exclude`
    "#);
}

#[test]
fn a_grid_by_a_slip_of_the_pen_is_refused() {
    let many: Vec<String> = (0..200).map(|i| i.to_string()).collect();
    let many = many.join(",");
    let text = format!(
        "name = \"x\"\nstrategies = [{{ name = \"mask\", keep_last = [{many}] }}]\ntriggers = [{{ name = \"turns\", n = [{many}] }}]"
    );
    assert_eq!(error(&text), "experiment.toml: a grid of 40000 variants, at most 10000");
}

#[test]
fn a_trigger_has_a_model_of_its_own() {
    let text = "name = \"x\"\nstrategies = [{ name = \"mask\" }]\n\
                triggers = [{ name = \"intent\", model = [\"none\", \"m\"] }]";
    let plan = Plan::parse("experiment.toml", text, &Catalogue::built_in()).unwrap();
    let of = |v: &Variant| (v.label.clone(), v.models().map(str::to_owned).collect::<Vec<_>>());
    let expected = [
        ("full @ never", vec![]),
        ("mask @ intent(model=none)", vec![]),
        ("mask @ intent(model=m)", vec!["m".to_owned()]),
    ];
    let expected = expected.map(|(label, models)| (label.to_owned(), models));
    assert_eq!(plan.variants.iter().map(of).collect::<Vec<_>>(), expected);
    let groups: Vec<Option<&str>> = plan.groups().into_iter().map(|group| group.0).collect();
    assert_eq!(groups, [None, Some("m")]);
}

#[test]
fn built_in_defaults_are_accepted() {
    let catalogue = Catalogue::built_in();
    for known in catalogue.strategies.iter().chain(&catalogue.triggers) {
        (known.check)(toml::Table::new()).unwrap();
    }
}
