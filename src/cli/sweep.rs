//! `trajpress sweep`: a product's policy at many settings over one's own sessions.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use serde_json::{Value, json};

use super::advise::replayed;
use super::once::read;
use super::page::{Block, lay_out, percent, shown, width};
use super::trial::tokens;
use super::{ExitStatus, Output, catalogue, count, print, tell};
use crate::advice::sweep::{Paid, Setting, setting};
use crate::experiment::Plan;
use crate::experiment::plan::Variant;
use crate::files::lock::Lock;
use crate::files::whole::Whole;
use crate::policies;
use crate::report::sweep::{Drawn, figure};
use crate::scores::money::Prices;
use crate::text::escape;

/// What the experiment goes by that is made of the keys: nobody has its text.
const GRID: &str = "--vary";
/// Combinations of settings at most.
const MOST: usize = 200;
/// The key that is no stage's.
const WINDOW: &str = "window";
/// What stands for summaries: the ends of what they may be.
const FORMS: [&str; 2] = ["empty", "oracle"];

/// Replay sessions under presets at many settings, and print what each saves and loses
///
/// Each `--vary` names a key of the preset with its values; all combinations are replayed. A key is `window`, or one of
/// its stages, such as `trigger.share`, `scope.keep` or `2.strategy.tokens` (of the second stage): `trajpress show preset NAME`
/// shows them. Several presets take the same values. A preset that writes summaries is replayed with empty ones and with the oracle's. No model is asked.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress sweep logs/ --preset claude-api-clear-tool-uses \\
    --vary trigger.tokens=30k,60k,100k --vary scope.keep=3,10
  trajpress sweep logs/ --preset claude-code --out swept \\
    --vary window=64k,128k,200k
  trajpress sweep logs/ --preset pi-1.5 --preset codex --vary window=64k,128k")]
pub struct Args {
    /// Files or folders of logs
    #[arg(required = true)]
    logs: Vec<PathBuf>,
    /// A preset, one of `trajpress list presets`; may be given several times
    #[arg(long = "preset", value_name = "NAME", required = true)]
    presets: Vec<String>,
    /// A key with the values that it takes, as `window=64k,128k`; may be given several times
    #[arg(long, value_name = "KEY=VALUES", required = true, value_parser = vary)]
    vary: Vec<Vary>,
    /// Folder for the table as csv and JSON, and for the figure
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
}

/// A key with its values.
#[derive(Clone, Debug, PartialEq)]
struct Vary {
    key: String,
    /// As they are written, and as TOML.
    values: Vec<(String, toml::Value)>,
}

fn vary(text: &str) -> Result<Vary, String> {
    let (key, values) = text.split_once('=').ok_or("expected KEY=VALUES, as in window=64k,128k")?;
    let value = |text: &str| {
        let text = text.trim();
        let as_toml = || toml::from_str::<toml::Table>(&format!("value = {text}")).ok()?.remove("value");
        let suffixed = text.ends_with(['k', 'K', 'm', 'M']).then(|| tokens(text).ok()).flatten();
        let suffixed = suffixed.and_then(|n| i64::try_from(n).ok()).map(toml::Value::Integer);
        let word = || toml::Value::String(text.to_owned());
        match text.is_empty() {
            true => Err(format!("`{key}` has an empty value")),
            false => Ok((text.to_owned(), suffixed.or_else(as_toml).unwrap_or_else(word))),
        }
    };
    let values: Vec<(String, toml::Value)> = values.split(',').map(value).collect::<Result<_, _>>()?;
    // More are refused anyway.
    for (i, (text, value)) in values.iter().enumerate().take(MOST) {
        if values[..i].iter().any(|(_, before)| before == value) {
            return Err(format!("`{key}` has the value {text} twice"));
        }
    }
    Ok(Vary { key: key.trim().to_owned(), values })
}

/// Values of all keys that are varied, in their order.
type Choice = Vec<usize>;

/// All combinations; the last key changes first.
fn choices(vary: &[Vary]) -> Vec<Choice> {
    vary.iter().fold(vec![Vec::new()], |all, of| {
        let with = |choice: &Choice| {
            let choice = choice.clone();
            (0..of.values.len()).map(move |value| [choice.clone(), vec![value]].concat())
        };
        all.iter().flat_map(with).collect()
    })
}

/// What a combination sets: keys of stages, and the window.
fn set(vary: &[Vary], choice: &Choice) -> (toml::Table, Option<toml::Value>) {
    let (mut keys, mut window) = (toml::Table::new(), None);
    for (of, &value) in vary.iter().zip(choice) {
        let value = of.values[value].1.clone();
        match of.key.as_str() {
            WINDOW => window = Some(value),
            key => _ = keys.insert(key.to_owned(), value),
        }
    }
    (keys, window)
}

/// The experiment that replays them.
fn experiment(presets: &[String], vary: &[Vary], choices: &[Choice]) -> anyhow::Result<String> {
    let own = Prices { own: true, ..Prices::default() };
    let mut text =
        format!("name = \"sweep\"\ntokenizer = \"o200k\"\nseed = 1\n\n[prices]\n{}", toml::to_string(&own)?);
    for (preset, choice) in
        presets.iter().flat_map(|preset| choices.iter().map(move |choice| (preset, choice)))
    {
        let policy = &policies::find(preset)?.policy;
        let (keys, window) = set(vary, choice);
        let mut table = toml::Table::from_iter([("preset".to_owned(), preset.as_str().into())]);
        table.extend(window.map(|window| (WINDOW.to_owned(), window)));
        if !keys.is_empty() {
            table.insert("set".to_owned(), keys.into());
        }
        if policy.summarises() {
            table.insert("forms".to_owned(), FORMS.to_vec().into());
        }
        let policies = toml::Table::from_iter([("policies".to_owned(), vec![table].into())]);
        text += &format!("\n{}", toml::to_string(&policies)?);
    }
    Ok(text)
}

/// An error in that experiment, without a line of it.
fn of_vary(error: &anyhow::Error) -> anyhow::Error {
    let told = format!("{error:#}").trim_end().replace("\nin `", " in `");
    let place = told.strip_prefix(GRID).and_then(|rest| rest.strip_prefix(':')).unwrap_or(&told);
    let said = place.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches(':').trim_start();
    anyhow::anyhow!("`{GRID}`: {said}")
}

/// Where a combination, with what stands for its summaries, stands in the plan.
fn place(
    plan: &Plan,
    vary: &[Vary],
    (preset, choice): (&str, &Choice),
    form: Option<&str>,
) -> anyhow::Result<usize> {
    let (mut keys, window) = set(vary, choice);
    keys.extend(form.map(|form| ("form".to_owned(), form.into())));
    let is_it = |variant: &Variant| {
        variant.strategy == preset
            && variant.strategy_params == keys
            && window.as_ref().is_none_or(|window| variant.trigger_params.get(WINDOW) == Some(window))
    };
    plan.variants.iter().position(is_it).context("a combination is not in the plan")
}

/// A row of the table.
struct Row {
    preset: String,
    /// Beside the keys.
    values: Vec<String>,
    /// What stands for summaries; none where none are written.
    form: Option<String>,
    setting: Setting,
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let n = args
        .vary
        .iter()
        .try_fold(args.presets.len(), |n, of| n.checked_mul(of.values.len()).filter(|n| *n <= MOST));
    anyhow::ensure!(n.is_some(), "more than {MOST} combinations are asked for\nhint: fewer values");
    let keys: BTreeSet<&str> = args.vary.iter().map(|of| of.key.as_str()).collect();
    anyhow::ensure!(
        keys.len() == args.vary.len(),
        "a key is varied twice\nhint: give all its values in one `--vary`"
    );
    let named: BTreeSet<&String> = args.presets.iter().collect();
    anyhow::ensure!(named.len() == args.presets.len(), "a preset is named twice");
    let choices = choices(&args.vary);
    let text = experiment(&args.presets, &args.vary, &choices)?;
    let plan = Plan::parse(GRID, &text, &catalogue()).map_err(|error| of_vary(&error))?;
    let threads = super::threads(args.threads);
    let (_folder, data, _) = read(&args.logs, threads, output)?;
    let indices: Vec<usize> = (0..data.entries().len()).collect();
    let table = data.trajectory_rows(&indices)?;
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let sessions = replayed(&data, &table, &indices, &plan, &pool, output)?;
    let mut rows = Vec::new();
    for preset in &args.presets {
        let forms: Vec<Option<&str>> = match policies::find(preset)?.policy.summarises() {
            true => FORMS.map(Some).to_vec(),
            false => vec![None],
        };
        for (choice, form) in choices.iter().flat_map(|choice| forms.iter().map(move |form| (choice, *form)))
        {
            rows.push(Row {
                preset: preset.clone(),
                values: args.vary.iter().zip(choice).map(|(of, &value)| of.values[value].0.clone()).collect(),
                form: form.map(str::to_owned),
                setting: setting(&sessions, place(&plan, &args.vary, (preset, choice), form)?),
            });
        }
    }
    let keys: Vec<&str> = args.vary.iter().map(|of| of.key.as_str()).collect();
    if let Some(out) = &args.out {
        write(out, args, &keys, &rows)?;
    }
    match output.json {
        true => print(&escape::json(&as_json(args, &keys, &rows))?)?,
        false => print(&lay_out(&page(args, &keys, &rows), width()))?,
    }
    Ok(ExitStatus::Done)
}

/// The keys of which no value makes a difference: rows that differ in one of them alone are the same.
fn without_effect<'k>(keys: &[&'k str], rows: &[&Row]) -> Vec<&'k str> {
    let is_idle = |&(at, _): &(usize, &&str)| {
        let others = |row: &Row| {
            let mut values = row.values.clone();
            values.remove(at);
            (values, row.form.clone())
        };
        let is_varied = rows.iter().any(|row| row.values[at] != rows[0].values[at]);
        let pairs = rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b)));
        let mut alike = pairs.filter(|(a, b)| others(a) == others(b));
        is_varied && alike.all(|(a, b)| a.setting.is_same_as(&b.setting))
    };
    keys.iter().enumerate().filter(is_idle).map(|(_, key)| *key).collect()
}

fn page(args: &Args, keys: &[&str], rows: &[Row]) -> Vec<Block> {
    let n = rows.first().map_or(0, |row| row.setting.n_sessions);
    let over = count(n as u64, "session");
    let mut blocks = vec![Block::Text(format!("`{}` over {over}.\n", args.presets.join("`, `")))];
    for preset in &args.presets {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.preset == *preset).collect();
        let title = if args.presets.len() > 1 { format!("\n`{preset}`:\n\n") } else { "\n".to_owned() };
        blocks.push(Block::Text(title));
        blocks.push(table(keys, &rows));
        for key in without_effect(keys, &rows) {
            let said = format!("`{key}` has no effect here: rows that differ in it alone are the same.\n");
            blocks.push(Block::Text(said));
        }
    }
    blocks.push(Block::Text(MEANS.to_owned()));
    blocks
}

/// What the words of the tables mean.
const MEANS: &str = "\nNeeds: what the agent used that it had last seen more than 3 turns before; those of one turn count as one. Worst tenth: of the \
     sessions, the share that is kept at their 10th percentile. Pays after: calls until shorter prompts have paid for the broken prompt \
     cache, the median of all compressions; where fewer than half pay in what was left of the log, the share that does. The money saved \
     is that of all of them together: a few that pay for long may save more than the others cost.\n";

/// The rows of a preset.
fn table(keys: &[&str], rows: &[&Row]) -> Block {
    let has_forms = rows.iter().any(|row| row.form.is_some());
    // A head is broken between words.
    let mut head: Vec<String> = keys.iter().map(|key| key.replace('.', ". ")).collect();
    if has_forms {
        head.push("summaries".to_owned());
    }
    let fixed = head.len();
    let names = [
        "tokens saved",
        "money saved",
        "needs kept",
        "worst tenth",
        "needs lost a session",
        "10th to 90th percentile",
        "pays after, 5 min",
        "pays after, 1 h",
        "affected",
    ];
    head.extend(names.map(str::to_owned));
    let mut lines = vec![head];
    for row in rows {
        let of = &row.setting;
        let mut line = row.values.clone();
        if has_forms {
            line.push(row.form.clone().unwrap_or_default());
        }
        line.extend([
            of.saved[0].map_or_else(none, percent),
            of.saved[2].map_or_else(none, percent),
            shown(&of.kept),
            of.low.map_or_else(none, |low| format!("{low:.2}")),
            shown(&of.lost),
            of.lost_tenths.map_or_else(none, |[low, high]| format!("{low:.1} to {high:.1}")),
            calls(of.paid[0]),
            calls(of.paid[1]),
            of.n_affected.to_string(),
        ]);
        lines.push(line);
    }
    Block::Table { rows: lines, spare: [8, 7, 6, 5, 0, 3, 4].map(|column| fixed + column).to_vec() }
}

fn as_json(args: &Args, keys: &[&str], rows: &[Row]) -> Value {
    let row = |row: &Row| {
        let of = &row.setting;
        let values: serde_json::Map<String, Value> =
            keys.iter().zip(&row.values).map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        json!({
            "preset": row.preset, "set": values, "summaries": row.form, "sessions": of.n_sessions, "affected_sessions": of.n_affected,
            "compressions": of.n_events, "tokens_saved": of.saved[0], "tokens_saved_billed": of.saved[1], "money_saved": of.saved[2],
            "needs": of.kept.n_items, "needs_kept": of.kept.value, "needs_kept_interval": of.kept.interval.map(|(lo, hi)| [lo, hi]),
            "needs_kept_10th_percentile": of.low,
            "needs_lost_a_session": of.lost.value, "needs_lost_a_session_interval": of.lost.interval.map(|(lo, hi)| [lo, hi]),
            "needs_lost_10th_percentile": of.lost_tenths.map(|of| of[0]), "needs_lost_90th_percentile": of.lost_tenths.map(|of| of[1]),
            "pays_after_calls_5min": of.paid[0].median, "never_pays_5min": of.paid[0].never,
            "pays_after_calls_1h": of.paid[1].median, "never_pays_1h": of.paid[1].never,
        })
    };
    let idle = |preset: &String| {
        let of: Vec<&Row> = rows.iter().filter(|row| row.preset == *preset).collect();
        (preset.clone(), json!(without_effect(keys, &of)))
    };
    json!({
        "presets": args.presets, "rows": rows.iter().map(row).collect::<Vec<_>>(),
        "without_effect": args.presets.iter().map(idle).collect::<serde_json::Map<_, _>>(),
    })
}

/// Writes `sweep.csv`, `sweep.json`, `sweep.svg` and `sweep.png`.
fn write(out: &std::path::Path, args: &Args, keys: &[&str], rows: &[Row]) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let _alone = Lock::alone(out, "sweep")?;
    let value = as_json(args, keys, rows);
    let drawn = |row: &Row| {
        let (value, others) = row.values.split_last().expect("a key at least");
        let others = keys.iter().zip(others).map(|(key, value)| format!("{key}={value}"));
        let form = row.form.iter().map(|form| format!("({form} summaries)"));
        Drawn {
            line: [row.preset.clone()].into_iter().chain(others).chain(form).collect::<Vec<_>>().join(" "),
            value: value.clone(),
            saved: [row.setting.saved[0], row.setting.saved[2]],
            kept: row.setting.kept.clone(),
        }
    };
    let title = format!(
        "{} over {}, these repositories",
        args.presets.join(", "),
        count(rows.first().map_or(0, |row| row.setting.n_sessions) as u64, "session")
    );
    let last = keys.last().copied().unwrap_or_default();
    let (svg, png) = figure(&title, last, &rows.iter().map(drawn).collect::<Vec<_>>())?;
    let files: [(&str, Vec<u8>); 4] = [
        ("sweep.csv", csv(keys, &value).into_bytes()),
        ("sweep.json", escape::json(&value)?.into_bytes()),
        ("sweep.svg", svg.into_bytes()),
        ("sweep.png", png),
    ];
    // All are whole before the first takes its place.
    let mut whole = Vec::new();
    for (name, bytes) in files {
        let path = out.join(name);
        let cannot = || format!("cannot write {}", path.display());
        let mut file = Whole::begin(Some(&path))?;
        file.write_all(&bytes).and_then(|()| file.flush()).with_context(cannot)?;
        whole.push((path, file));
    }
    for (path, file) in whole {
        file.finish().with_context(|| format!("cannot write {}", path.display()))?;
        tell(&format!("wrote {}", path.display()));
    }
    Ok(())
}

/// The rows of the JSON, a column a key; lists have one for each end.
fn csv(keys: &[&str], value: &Value) -> String {
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) => escape::csv(text),
        other => other.to_string(),
    };
    let mut lines = Vec::new();
    for row in value["rows"].as_array().into_iter().flatten().filter_map(Value::as_object) {
        let (mut heads, mut cells) = (vec!["preset".to_owned()], vec![cell(&row["preset"])]);
        for key in keys {
            heads.push(escape::csv(key));
            cells.push(cell(&row["set"][*key]));
        }
        for (key, value) in row.iter().filter(|(key, _)| !["preset", "set"].contains(&key.as_str())) {
            if key.ends_with("_interval") {
                heads.extend(["lo", "hi"].map(|end| format!("{key}_{end}")));
                cells.extend([&value[0], &value[1]].map(cell));
            } else {
                heads.push(key.clone());
                cells.push(cell(value));
            }
        }
        if lines.is_empty() {
            lines.push(heads.join(","));
        }
        lines.push(cells.join(","));
    }
    lines.join("\n") + "\n"
}

fn none() -> String {
    "-".to_owned()
}

fn calls(paid: Paid) -> String {
    match (paid.median, paid.never) {
        (_, None) => none(),
        (None, Some(never)) => format!("{} pay", percent(1.0 - never)),
        (Some(calls), _) => calls.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_numbers_words_or_tokens_with_a_unit() {
        let of = vary("window=64k, 128000").unwrap();
        assert_eq!((of.key.as_str(), of.values.len()), ("window", 2));
        assert_eq!(of.values[0], ("64k".to_owned(), toml::Value::Integer(64_000)));
        assert_eq!(vary("trigger.share=0.5,0.8").unwrap().values[1].1, toml::Value::Float(0.8));
        assert_eq!(vary("scope.of=results").unwrap().values[0].1, toml::Value::String("results".to_owned()));
        assert_eq!(vary("strategy.if_shorter=true").unwrap().values[0].1, toml::Value::Boolean(true));
        assert!(
            ["window", "window=", "window=1k,,2k", "window=64k,64000"]
                .into_iter()
                .all(|text| vary(text).is_err())
        );
    }

    #[test]
    fn all_combinations_in_order() {
        let vary = ["a=1,2", "b=3,4,5"].map(|text| vary(text).unwrap());
        let all = choices(&vary);
        assert_eq!((all.len(), &all[0], &all[1], &all[5]), (6, &vec![0, 0], &vec![0, 1], &vec![1, 2]));
    }

    #[test]
    fn an_experiment_has_a_row_a_combination_and_form() {
        let vary = ["window=64k,128k", "strategy.files=0,5"].map(|text| vary(text).unwrap());
        let presets = ["claude-code", "codex"].map(str::to_owned);
        let planned = |presets: &[String], vary: &[Vary]| {
            let text = experiment(presets, vary, &choices(vary)).unwrap();
            Plan::parse("sweep", &text, &catalogue()).unwrap()
        };
        let plan = planned(&presets[..1], &vary);
        let label = |choice: [usize; 2], form| {
            let place = place(&plan, &vary, ("claude-code", &choice.to_vec()), Some(form)).unwrap();
            plan.variants[place].label.clone()
        };
        assert_eq!(
            label([0, 0], "empty"),
            "claude-code(strategy.files=0) @ 64k, less kept free [no summary]"
        );
        assert_eq!(label([1, 1], "oracle"), "claude-code(strategy.files=5) @ 128k [oracle's summary]");
        // Of two presets each has all the combinations.
        let plan = planned(&presets, &vary[..1]);
        let label = |preset, choice: usize| {
            let place = place(&plan, &vary[..1], (preset, &vec![choice]), Some("empty")).unwrap();
            plan.variants[place].label.clone()
        };
        assert_eq!(plan.variants.iter().filter(|variant| variant.strategy == "codex").count(), 4);
        assert!(label("codex", 1).starts_with("codex @ 128k"), "{}", label("codex", 1));
        assert!(label("claude-code", 0).starts_with("claude-code @ 64k"), "{}", label("claude-code", 0));
    }
}
