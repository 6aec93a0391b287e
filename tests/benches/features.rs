//! Features of a log's text against the bare tokenizer and one pass for atoms.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use trajpress::internals::annotate::features;
use trajpress::internals::text::atoms;
use trajpress::internals::text::tokens::Tokenizer;
use trajpress::{Kind, Role, Step, step};

fn main() {
    divan::main();
}

/// Observations with code, prose, paths and numbers, about 2 MB.
fn steps() -> Vec<Step> {
    (0..400)
        .map(|i| {
            let mut text = String::new();
            for line in 0..60 {
                text.push_str(&match (i + line) % 4 {
                    0 => format!("src/part{}/module_{}.py:{}: in compute_total\n", i % 7, i % 40, line * 3),
                    1 => format!("    total_{line} = order.sum(limit={i}, rate=\"{line}.5%\")  # see issue #{i}\n"),
                    2 => "The job fails because the second table has no rows for that day, as the report says.\n".to_owned(),
                    _ => format!("ValueError: cannot parse '{i}-{line}' at 0x{:08x}\n", i * 7919 + line),
                });
            }
            step(Role::Tool, Kind::Observation, text)
        })
        .collect()
}

fn bytes(steps: &[Step]) -> BytesCount {
    BytesCount::new(steps.iter().map(|s| s.text.len()).sum::<usize>())
}

fn tokenizer() -> Tokenizer {
    Tokenizer::load("o200k").expect("o200k travels with the build")
}

#[divan::bench(sample_count = 20)]
fn features_of_steps(bencher: Bencher<'_, '_>) {
    let (steps, tokenizer) = (steps(), tokenizer());
    bencher.counter(bytes(&steps)).bench_local(|| black_box(features::rows("t", &steps, &tokenizer)));
}

#[divan::bench(sample_count = 20)]
fn reference_bare_tokenizer(bencher: Bencher<'_, '_>) {
    let (steps, tokenizer) = (steps(), tokenizer());
    bencher
        .counter(bytes(&steps))
        .bench_local(|| steps.iter().map(|s| tokenizer.count(&s.text)).sum::<u32>());
}

#[divan::bench(sample_count = 20)]
fn reference_atoms_alone(bencher: Bencher<'_, '_>) {
    let steps = steps();
    bencher
        .counter(bytes(&steps))
        .bench_local(|| steps.iter().map(|s| atoms::occurrences(&s.text).len()).sum::<usize>());
}
