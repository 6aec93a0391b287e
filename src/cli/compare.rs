//! `trajpress compare`: whether a run got worse than one before.

mod history;
mod words;

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::page::{Block, lay_out, width};
use super::{ExitStatus, Output, count, print, report, tell};
use crate::experiment::finish::Success;
use crate::files::{reach, whole};
use crate::report::compare::gate::{Answer, Gate};
use crate::report::compare::{Compared, Options, Row, compare};
use crate::report::statistics::bootstrap::Resampling;
use crate::report::tables::{fixed, markdown};
use crate::report::{Night, Population};
use crate::scores;
use crate::text::escape;
use words::{difference, headline, number, pairing, renamed, shortened, told};

/// Compare a run with one before, and say whether it got worse
///
/// Sessions are paired by the log's own id; variants by their settings (strategy, trigger, parameters, model), whatever they are called,
/// then by their label; what is left of a strategy, trigger and model, one on each side, is one variant whose settings changed. A gate says which scores may fall by how much; each variant
/// gets one of three answers: worse (the loss is above 0 with 95 % confidence), not worse (it is below the margin with the same
/// confidence), or cannot tell. Runs that were made with another annotation, tokenizer, model or version of the scores are not
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress compare runs/monday runs/tuesday
  trajpress compare runs/monday runs/tuesday --gate gate.toml --junit compare.xml
  trajpress compare runs/main runs/branch --markdown > comment.md
  trajpress compare --history nights

A gate is a TOML file; without one it holds need_retention, token_savings and cost_savings with a margin of 0.05. Worse is what is shown to
have fallen, by however little; not worse what is shown to have fallen by less than the margin, if at all; the rest cannot be told:
  [[rules]]
  score = \"need_retention\"
  margin = 0.05
  variants = [\"mask\", \"truncate*\"]

Names are labels, strategies, or how they begin; one that fits no variant of either run is an error. With `may_go = [\"mask*\"]`
before its rules a variant may be gone.

Exit codes: 0 nothing is worse; 1 something is, or is gone (or, with --strict, cannot be told); 2 the runs cannot be compared, or the gate names what is not there")]
pub struct Args {
    /// Folder of the run that counts as before
    #[arg(required_unless_present = "history")]
    base: Option<PathBuf>,
    /// Folder of the run that must not be worse
    #[arg(required_unless_present = "history")]
    new: Option<PathBuf>,
    /// Instead of two runs, draw the last nights in the folder of `trajpress nightly`: history.svg, .png and .csv there
    #[arg(long, value_name = "DIR", conflicts_with_all = ["base", "new", "gate", "markdown", "junit", "strict"])]
    history: Option<PathBuf>,
    /// How many nights `--history` draws
    #[arg(long, value_name = "N", default_value_t = 14, requires = "history")]
    nights: usize,
    /// File of rules [default: those above]
    #[arg(long, value_name = "FILE")]
    gate: Option<PathBuf>,
    /// Also exit with 1 where a rule cannot be told
    #[arg(long)]
    strict: bool,
    /// Print Markdown, for a chat or a pull request
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Also write the answers as JUnit XML, for a build server
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Of which logs intervals speak: of more logs of the same repositories, or of other repositories
    #[arg(long, value_enum, default_value = "these")]
    population: Population,
    /// Seed of the bootstrap and of the random halves
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    report::check_environment()?;
    if let Some(folder) = &args.history {
        return history::run(folder, args.nights, output);
    }
    let (Some(base), Some(new)) = (&args.base, &args.new) else { unreachable!("both are required") };
    for run in [base, new] {
        check_whole(run)?;
    }
    let options = Options {
        resampling: Resampling { seed: args.seed, resamples: 2_000 },
        population: args.population,
        gate: Gate::load(args.gate.as_deref())?,
    };
    let compared = compare(base, new, &options)?;
    if let Some(path) = &args.junit {
        whole::write(path, junit(&compared, args.strict).as_bytes())?;
    }
    print(&match (output.json, args.markdown) {
        (true, _) => escape::json(&as_json(&compared))?,
        (_, true) => as_markdown(&compared),
        _ => lay_out(&page(&compared), width()),
    })?;
    tell_warnings(&compared);
    Ok(status(&compared, args.strict))
}

fn status(of: &Compared, strict: bool) -> ExitStatus {
    match of.answer() {
        Some(Answer::Worse | Answer::Gone) => ExitStatus::Failed,
        Some(Answer::CannotTell) if strict => ExitStatus::Failed,
        _ => ExitStatus::Done,
    }
}

/// What a night says of the one before it.
pub(super) struct Answered {
    compared: Compared,
    strict: bool,
}

/// Compares a night with the one before it; the answers go into its folder, too, as compare.md, compare.json and compare.xml.
pub(super) fn night(base: &Path, new: &Path, gate: Gate, strict: bool) -> anyhow::Result<Answered> {
    let options =
        Options { resampling: Resampling { seed: 1, resamples: 2_000 }, population: Population::These, gate };
    let compared = compare(base, new, &options)?;
    let files = [
        ("compare.md", as_markdown(&compared)),
        ("compare.json", escape::json(&as_json(&compared))?),
        ("compare.xml", junit(&compared, strict)),
    ];
    for (name, text) in files {
        whole::write(&new.join(name), text.as_bytes())?;
    }
    Ok(Answered { compared, strict })
}

impl Answered {
    /// The same for the page of the night.
    pub(super) fn for_page(&self) -> Night {
        Night {
            said: headline(&self.compared),
            about: format!("{} {}", tally(&self.compared), pairing(&self.compared)),
            head: HEAD.map(str::to_owned).to_vec(),
            rows: changed(&self.compared).into_iter().map(cells).collect(),
            notes: warnings(&self.compared).iter().map(|warning| in_a_line(warning)).collect(),
            ..Night::default()
        }
    }

    /// Prints it; the status is that of the gate.
    pub(super) fn print(&self) -> anyhow::Result<ExitStatus> {
        print(&lay_out(&page(&self.compared), width()))?;
        tell_warnings(&self.compared);
        Ok(self.status())
    }

    pub(super) fn status(&self) -> ExitStatus {
        status(&self.compared, self.strict)
    }

    pub(super) fn json(&self) -> Value {
        as_json(&self.compared)
    }
}

/// How many answers there are of each kind.
fn tally(of: &Compared) -> String {
    let n = |answer| of.rows.iter().filter(|row| row.answer == answer).count();
    let same = of.rows.iter().filter(|row| row.is_same).count();
    format!(
        "Of {}: {} worse, {} cannot be told, {} not worse ({same} of these the same).",
        count(of.rows.len() as u64, "answer"),
        n(Answer::Worse),
        n(Answer::CannotTell),
        n(Answer::NotWorse)
    )
}

/// A warning as a sentence, without the marks that terminals have.
fn in_a_line(warning: &str) -> String {
    let told = warning.trim_start_matches("warning: ").replace("\nhint: ", "; ");
    let mut letters = told.chars();
    letters.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), letters.as_str()))
}

/// Fails where the tables are not those that the run wrote.
fn check_whole(run: &Path) -> anyhow::Result<()> {
    let success = Success::read(run)?;
    if let Some(what) = success.as_ref().map(|s| s.damaged(run)).transpose()?.flatten() {
        anyhow::bail!("{what}\nhint: start the run again, it joins its tables anew");
    }
    // Of what is no run at all the comparison tells.
    if success.is_none() && reach::is_there(&run.join("_manifest.json"))? {
        tell(&format!(
            "{}: no _SUCCESS, so nothing says that these tables are whole and of one run",
            run.display()
        ));
    }
    Ok(())
}

const HEAD: [&str; 8] = ["variant", "score", "before", "now", "difference", "p (Holm)", "sessions", "answer"];

fn cells(row: &Row) -> Vec<String> {
    let p = row
        .p_holm
        .map_or_else(|| "-".to_owned(), |p| if p < 0.001 { "<0.001".to_owned() } else { fixed(p, 3) });
    vec![
        row.label.clone(),
        scores::called(row.score),
        number(row.base),
        number(row.new),
        difference(row),
        p,
        row.n_sessions().to_string(),
        row.answer.words().to_owned(),
    ]
}

/// Rows that changed, the worst first.
fn changed(of: &Compared) -> Vec<&Row> {
    let mut rows: Vec<&Row> = of.rows.iter().filter(|row| !row.is_same).collect();
    rows.sort_by(|a, b| {
        b.answer.cmp(&a.answer).then(a.value().unwrap_or(0.0).total_cmp(&b.value().unwrap_or(0.0)))
    });
    rows
}

/// What the noise is.
fn noise(of: &Compared) -> Vec<String> {
    let mut said = Vec::new();
    for seeds in of.seeds.iter().filter(|seeds| seeds.apart > 0.0) {
        said.push(format!(
            "{} seeds of `{}` are {} apart in {} on the same logs.",
            seeds.n_seeds,
            seeds.label,
            fixed(seeds.apart, 3),
            scores::called(seeds.score)
        ));
    }
    let mut scores: Vec<&str> = of.rows.iter().map(|row| row.score).collect();
    scores.dedup();
    for score in scores {
        let halves: Vec<f64> =
            of.rows.iter().filter(|row| row.score == score).filter_map(|row| row.halves).collect();
        if let Some(most) = halves.into_iter().reduce(f64::max) {
            said.push(format!(
                "Two random halves of the sessions are {} apart in {}, for the variant that varies most (19 of 20 draws).",
                fixed(most, 3),
                scores::called(score)
            ));
        }
    }
    let least = of.rows.iter().filter_map(|row| row.least);
    if let Some(most) = least.clone().reduce(f64::max) {
        let best = least.reduce(f64::min).unwrap_or(most);
        let reach = match (fixed(best, 3), fixed(most, 3)) {
            (best, most) if best == most => most,
            (best, most) => format!("{best} to {most}, by variant"),
        };
        said.push(format!("The least loss that these sessions can tell is {reach}."));
    }
    said
}

fn page(of: &Compared) -> Vec<Block> {
    let mut blocks = vec![Block::Text(format!("{}\n\n{}\n\n", headline(of), pairing(of)))];
    let rows = changed(of);
    if !rows.is_empty() {
        let mut lines = vec![HEAD.map(str::to_owned).to_vec()];
        lines.extend(rows.iter().map(|row| cells(row)));
        blocks.push(Block::Table { rows: lines, spare: vec![5, 6, 2, 3] });
        blocks.push(Block::Text("\n".to_owned()));
    }
    let same = of.rows.len() - rows.len();
    if same > 0 && !rows.is_empty() {
        blocks.push(Block::Text(format!("{same} more are the same in every session.\n\n")));
    }
    blocks.push(Block::Text(format!("{}\n", noise(of).join("\n"))));
    blocks.push(Block::Text(format!(
        "\nDifference: now - before, over the sessions that have the score in both, with its 95 % interval; it speaks of {}, a cluster \
         is {}. p: one-sided, of \"nothing was lost\", adjusted over all rows.\n",
        of.population, of.cluster
    )));
    blocks
}

fn as_markdown(of: &Compared) -> String {
    let rows: Vec<Vec<String>> = changed(of).into_iter().map(cells).collect();
    let mut text = format!("**{}**\n\n{}\n", escape::markdown(&headline(of)), escape::markdown(&pairing(of)));
    if !rows.is_empty() {
        text += &format!("\n{}", markdown(&HEAD, &rows));
    }
    let more = warnings(of).into_iter().flat_map(|said| said.lines().map(str::to_owned).collect::<Vec<_>>());
    let said: Vec<String> =
        more.chain(noise(of)).map(|line| format!("- {}\n", escape::markdown(&line))).collect();
    escape::page(&format!("{text}\n{}", said.concat()))
}

/// Tells them in lines that a terminal has room for.
fn tell_warnings(of: &Compared) {
    let lines = warnings(of).into_iter().map(Block::Text).collect::<Vec<_>>();
    if !lines.is_empty() {
        tell(lay_out(&lines, width()).trim_end());
    }
}

/// What a reader should know beside the answers.
fn warnings(of: &Compared) -> Vec<String> {
    let mut said: Vec<String> =
        of.changed.iter().map(|what| format!("warning: other settings than before: {what}")).collect();
    if !of.reseeded.is_empty() {
        said.push(format!("warning: drawn with other seeds than before: {}", shortened(&of.reseeded)));
    }
    let renamed = renamed(of);
    if !renamed.is_empty() {
        said.push(format!("warning: called otherwise than before: {}", shortened(&renamed)));
    }
    if !of.only_base.is_empty() {
        said.push(format!(
            "warning: not compared, for they are gone: {}\nhint: variants are paired by their labels, where their settings are others; a \
             policy under [[policies]] keeps its `name` whatever its keys are, unless another does now what it did; `may_go = [\"LABEL\"]` in the gate lets one go",
            shortened(&of.only_base)
        ));
    }
    let noisy = of.noisy().count();
    if noisy > 0 {
        said.push(format!(
            "warning: for {} other logs alone would move the score by more than the margin, so this gate tells what changed on the \
             same logs, and nothing of other ones",
            count(noisy as u64, "answer")
        ));
    }
    said
}

fn as_json(of: &Compared) -> Value {
    let row = |row: &Row| {
        json!({
            "variant": row.label, "variant_before": row.label_before, "renamed": row.is_renamed, "score": row.score, "margin": row.margin, "before": row.base, "now": row.new, "now_all_sessions": row.whole,
            "difference": row.value(), "difference_interval": row.interval().map(|(lo, hi)| [lo, hi]), "p_holm": row.p_holm,
            "answer": row.answer, "same": row.is_same, "sessions": row.n_sessions(), "clusters": row.n_clusters(),
            "least_loss_told": row.least, "halves_apart": row.halves, "why_null": row.reason(),
        })
    };
    json!({
        "answer": of.answer(), "sessions": of.sessions, "variants_only_before": of.only_base, "variants_only_now": of.only_new, "new": of.began,
        "gone": of.gone,
        "other_settings": of.changed, "other_seeds": of.reseeded, "rows": of.rows.iter().map(row).collect::<Vec<_>>(), "seeds": of.seeds,
        "population": of.population, "cluster": of.cluster,
    })
}

/// A test case an answer: worse fails; what cannot be told is skipped, or fails where that is asked for.
fn junit(of: &Compared, strict: bool) -> String {
    let fails = |row: &&Row| row.answer == Answer::Worse || strict && row.answer == Answer::CannotTell;
    let n_gone = of.only_base.len();
    let n_failed = of.rows.iter().filter(fails).count() + of.gone.len();
    let skipped = of.rows.iter().filter(|row| row.answer == Answer::CannotTell && !fails(row)).count()
        + n_gone
        - of.gone.len();
    let gone = |label: &String| {
        let what = if of.gone.contains(label) { "failure" } else { "skipped" };
        let name = escape::xml(label);
        format!(
            "  <testcase classname=\"variant\" name=\"{name}\"><{what} message=\"it is gone\"/></testcase>\n"
        )
    };
    let case = |row: &Row| {
        let within = match row.answer {
            Answer::NotWorse => String::new(),
            Answer::CannotTell if !strict => format!("<skipped message=\"{}\"/>", escape::xml(&told(row))),
            answer => format!("<failure message=\"{}: {}\"/>", answer.words(), escape::xml(&told(row))),
        };
        let (class, name) = (escape::xml(row.score), escape::xml(&row.label));
        format!("  <testcase classname=\"{class}\" name=\"{name}\">{within}</testcase>\n")
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"trajpress compare\" tests=\"{}\" failures=\"{n_failed}\" \
         skipped=\"{skipped}\">\n{}</testsuite>\n",
        of.rows.len() + n_gone,
        of.rows.iter().map(case).chain(of.only_base.iter().map(gone)).collect::<String>()
    )
}
