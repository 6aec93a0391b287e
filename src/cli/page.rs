//! Pages of text and tables, laid out for the width of the terminal.

use serde::{Deserialize, Serialize};

use super::columns;
use crate::report::statistics::estimate::Estimate;

/// Where standard output is no terminal, and `COLUMNS` does not say.
const WIDTH: usize = 100;
/// Longer lines are hard to read, however wide the terminal is.
const WIDEST: usize = 120;
const NARROWEST: usize = 40;

/// A part of a page.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Block {
    /// Words, a line where it has one; longer lines are broken between words.
    Text(String),
    /// What is neither broken nor cut, such as paths.
    Line(String),
    /// The head, then the rows. Where there is no room the columns of `spare` go, the first of them first, which is told; then
    /// each row has lines of its own.
    Table { rows: Vec<Vec<String>>, spare: Vec<usize> },
    /// What is said of a column of the table before, and goes with it.
    About { column: String, said: Vec<Block> },
}

/// A share in words.
pub(super) fn percent(share: f64) -> String {
    // What rounds to nothing has no sign.
    format!("{:.0} %", (100.0 * share).round() + 0.0)
}

/// A value with its interval, or what was counted where there are too few for one.
pub(super) fn shown(of: &Estimate) -> String {
    match (of.value, of.interval) {
        (Some(value), Some((lo, hi))) => format!("{value:.2} [{lo:.2}, {hi:.2}]"),
        (Some(value), None) => format!("{value:.2}"),
        _ => of.counted.map_or_else(|| "-".to_owned(), |c| format!("{} of {}", c.kept, c.n)),
    }
}

/// Characters of a line of standard output.
pub(super) fn width() -> usize {
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal().or_else(told).unwrap_or(WIDTH).clamp(NARROWEST, WIDEST)
}

/// The same where it is a terminal.
pub(super) fn of_terminal() -> Option<usize> {
    terminal_size::terminal_size_of(std::io::stdout()).map(|(width, _)| usize::from(width.0))
}

/// The page in lines of at most so many characters, but for what cannot be broken.
pub(super) fn lay_out(blocks: &[Block], width: usize) -> String {
    let mut left_out = Vec::new();
    let of_block = |block: &Block| match block {
        Block::Text(text) => text.lines().flat_map(|line| wrap(line, width)).map(|l| l + "\n").collect(),
        Block::Line(line) => format!("{line}\n"),
        Block::Table { rows, spare } => {
            let (text, gone) = table(rows, spare, width);
            left_out = gone;
            text
        }
        Block::About { column, .. } if left_out.contains(column) => String::new(),
        Block::About { said, .. } => lay_out(said, width),
    };
    blocks.iter().map(of_block).collect()
}

/// A line broken between words; what follows an indented one is indented more.
fn wrap(line: &str, width: usize) -> Vec<String> {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let mut lines = vec![String::new()];
    let mut n = 0;
    for word in line[indent..].split(' ') {
        let last = lines.last_mut().expect("never empty");
        let long = word.chars().count();
        if n > 0 && n + 1 + long > width {
            n = if indent > 0 { indent + 2 } else { 0 };
            lines.push(" ".repeat(n) + word);
        } else {
            let gap = if last.is_empty() { " ".repeat(indent) } else { " ".to_owned() };
            n += gap.len();
            last.push_str(&gap);
            last.push_str(word);
        }
        n += long;
    }
    lines
}

/// The table, and the heads of the columns that it has no room for.
fn table(rows: &[Vec<String>], spare: &[usize], width: usize) -> (String, Vec<String>) {
    let Some((head, body)) = rows.split_first() else { return (String::new(), Vec::new()) };
    let chars = |cell: &String| cell.chars().count();
    let word = |i: usize| head[i].split(' ').map(|word| word.chars().count()).max();
    let widths: Vec<usize> = (0..head.len())
        .map(|i| body.iter().filter_map(|row| row.get(i)).map(chars).chain(word(i)).max().unwrap_or(0))
        .collect();
    let room = |shown: &[usize]| shown.iter().map(|&i| widths[i] + 2).sum::<usize>().saturating_sub(2);
    let mut shown: Vec<usize> = (0..head.len()).collect();
    let mut left_out = Vec::new();
    for &column in spare {
        if room(&shown) > width {
            shown.retain(|&i| i != column);
            left_out.push(head[column].clone());
        }
    }
    let mut text = match room(&shown) > width {
        true => stacked(rows, &shown, width),
        false => {
            let heads: Vec<Vec<String>> = shown.iter().map(|&i| wrap(&head[i], widths[i])).collect();
            let high = heads.iter().map(Vec::len).max().unwrap_or(0);
            // A short head stands right above its column.
            let line = |k: usize| {
                let cell = |lines: &Vec<String>| {
                    let at = (k + lines.len()).checked_sub(high);
                    at.map_or_else(String::new, |at| lines[at].clone())
                };
                heads.iter().map(cell).collect()
            };
            let cells = |row: &Vec<String>| shown.iter().map(|&i| row[i].clone()).collect();
            columns(&(0..high).map(line).chain(body.iter().map(cells)).collect::<Vec<Vec<String>>>())
        }
    };
    if !left_out.is_empty() {
        let told = format!("(no room here for: {})", left_out.join(", "));
        text += &wrap(&told, width).into_iter().map(|line| line + "\n").collect::<String>();
    }
    (text, left_out)
}

/// Each row as a line with its name, and below it what the columns say.
fn stacked(rows: &[Vec<String>], shown: &[usize], width: usize) -> String {
    let Some(((head, body), (first, others))) = rows.split_first().zip(shown.split_first()) else {
        return String::new();
    };
    let mut text = String::new();
    for row in body {
        let cells: Vec<String> = others.iter().map(|&i| format!("{} {}", head[i], row[i])).collect();
        let line = format!("  {}", cells.join(", "));
        text += &wrap(&row[*first], width).join("\n");
        text += &wrap(&line, width).into_iter().fold("\n".to_owned(), |text, line| text + &line + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(width: usize) -> String {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = vec![
            row(["policy", "tokens saved", "needs lost a session", "worst"]),
            row(["drop old turns, every turn", "7 %", "1.8 [1.3, 2.4]", "08940314 29"]),
            row(["mask", "12 %", "0 of 3", "none"]),
        ];
        let text =
            "A need is something that was used.\n  s: one two three four five six seven eight nine ten";
        let path = format!("  {}", "/a very long path".repeat(6));
        lay_out(
            &[
                Block::Text(text.to_owned()),
                Block::Table { rows, spare: vec![3] },
                Block::Line(path),
                Block::About {
                    column: "worst".to_owned(),
                    said: vec![Block::Text("Worst: its name.".to_owned())],
                },
                Block::Text(String::new()),
            ],
            width,
        )
    }

    #[test]
    fn a_page_fits_the_width() {
        insta::assert_snapshot!(page(80).lines().take(6).collect::<Vec<_>>().join("\n"), @r"
        A need is something that was used.
          s: one two three four five six seven eight nine ten
                                    tokens  needs lost a
        policy                      saved   session         worst
        drop old turns, every turn  7 %     1.8 [1.3, 2.4]  08940314 29
        mask                        12 %    0 of 3          none
        ");
        for width in [120, 80, 60, 40] {
            let page = page(width);
            let is_broken = page.lines().filter(|line| !line.contains("/a very"));
            assert!(is_broken.clone().all(|line| line.chars().count() <= width), "{width}: {page}");
            assert!(page.contains(&"/a very long path".repeat(6)), "{page}");
            assert_eq!(page.contains("(no room here for: worst)"), width < 70, "{page}");
            assert_eq!(page.contains("Worst: its name."), width >= 70, "{page}");
            assert_eq!(page.contains("  tokens saved 7 %, needs lost"), width == 40, "{page}");
        }
    }
}
