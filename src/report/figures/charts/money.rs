//! Where the money goes: reads of the cache, what is written to it, answers, the compressor, and rework, beside nothing compressed.

use super::plot::{self, LINE, SIZE, Scale, bar, dashed, is_wide, sheet};
use super::{Chart, Entry, Input};
use crate::report::figures::canvas::{Anchor, BLUE, CAP_EM, Canvas, Colour, INK, fitted_name, text_width};
use crate::report::figures::labels::Rect;
use crate::report::figures::marker::{COLOURS, GREY};
use crate::report::load::{Event, Prices, Spent};
use crate::report::tables::summary::{VariantSummary, metric};
use crate::report::tables::{Table, fixed};
use crate::scores::money::{COST_SAVINGS, NET_SAVINGS};

pub(super) const ENTRY: Entry = Entry { name: "money", chart };

const FULL: &str = "nothing compressed";
/// More rows are no figure.
const MOST: usize = 24;

const PARTS: [&str; 5] = ["read from the cache", "written to the cache", "answers", "compressor", "rework"];

fn colour(part: usize) -> Colour {
    [BLUE.lighter(0.6), BLUE, GREY.lighter(0.45), COLOURS[4], COLOURS[1]][part]
}

/// A variant's bill, each part as a share of the whole with nothing compressed.
struct Bill {
    name: String,
    parts: [f64; PARTS.len()],
}

impl Bill {
    fn whole(&self) -> f64 {
        self.parts.iter().sum()
    }
}

fn chart(input: &Input) -> Result<Chart, String> {
    let Some(prices) = &input.run.prices else {
        return Err("the run does not say what tokens cost".to_owned());
    };
    let rows: Vec<&VariantSummary> = input.choices().collect();
    let mut bills: Vec<Bill> = rows.iter().filter_map(|row| bill(input, row, prices)).collect();
    let Some(full) = rows.iter().find_map(|row| nothing_compressed(input, row)) else {
        return Err("the run keeps no decisions".to_owned());
    };
    bills.sort_by(|a, b| a.whole().total_cmp(&b.whole()));
    bills.insert(bills.partition_point(|bill| bill.whole() < full.whole()), full);
    let data = data(&bills);
    let apart = apart(input, &rows);
    let more = bills.len().saturating_sub(MOST);
    shorten(&mut bills);
    let more = if more > 0 { format!(" {more} more stand in money.csv.") } else { String::new() };
    let caption = format!(
        "What prompts and answers cost at the prices `{}`, in tokens by the provider's count where it is known, as shares of what they \
         cost with nothing compressed (1, dashed); the cheapest first. What the tables call money saved is 1 less the first three parts; the \
         compressor's calls, and rework, which is that what was lost and needed is read again, come on top.{apart}{more}",
        prices.name
    );
    Ok(Chart::new("Where the money goes".to_owned(), caption, data, |width| draw(width, &bills)))
}

/// Leaves the cheapest, and nothing compressed, which the others are shares of.
fn shorten(bills: &mut Vec<Bill>) {
    let full = bills.iter().position(|bill| bill.name == FULL);
    if let Some(dear) = full.filter(|at| *at >= MOST) {
        bills.swap(dear, MOST - 1);
    }
    bills.truncate(MOST);
}

fn spent<'a>(input: &Input<'a>, row: &VariantSummary) -> Option<(usize, &'a Spent)> {
    let variant = input.run.variants.iter().position(|v| v.variant == row.variant)?;
    Some((variant, &input.decisions.spent[variant])).filter(|(_, spent)| whole(spent) > 0.0)
}

fn nothing_compressed(input: &Input, row: &VariantSummary) -> Option<Bill> {
    let (_, spent) = spent(input, row)?;
    let [read, written, answers] = spent.paid_full.map(|cost| cost / whole(spent));
    Some(Bill { name: FULL.to_owned(), parts: [read, written, answers, 0.0, 0.0] })
}

/// What nothing compressed costs.
fn whole(spent: &Spent) -> f64 {
    spent.paid_full.iter().sum()
}

fn bill(input: &Input, row: &VariantSummary, prices: &Prices) -> Option<Bill> {
    if row.lost.n_events == 0 {
        return None;
    }
    let (variant, spent) = spent(input, row)?;
    let [read, written, answers] = spent.paid_sent;
    let mut asked = spent.recall.map(|tokens| tokens as f64);
    let events = input.run.events[variant].iter();
    let weighted = |event: &Event| event.model_tokens.map(|tokens| event.weight * tokens as f64);
    for more in events.map(weighted).chain([input.run.cells[variant].trigger_tokens]) {
        asked = [asked[0] + more[0], asked[1] + more[1]];
    }
    let compressor = prices.fresh * asked[0] + prices.output * asked[1];
    // What net savings count beside prompts and compressor is rework.
    let net = row.estimates[metric(NET_SAVINGS.name)].value;
    let tokens = |net: f64| (1.0 - net) * spent.full as f64 - spent.sent as f64 - (asked[0] + asked[1]);
    let rework = prices.cache_write * net.map_or(0.0, tokens).max(0.0);
    let parts = [read, written, answers, compressor, rework].map(|cost| cost / whole(spent));
    Some(Bill { name: row.label.clone(), parts })
}

/// How far prompts and answers are from the money of the tables, where that is to be seen: decisions do not say all that prices
/// depend on.
fn apart(input: &Input, rows: &[&VariantSummary]) -> String {
    let apart = |row: &&VariantSummary| {
        let (_, spent) = spent(input, row)?;
        let saved = row.estimates[metric(COST_SAVINGS.name)].value?;
        Some((spent.paid_sent.iter().sum::<f64>() / whole(spent) - (1.0 - saved)).abs())
    };
    match rows.iter().filter_map(apart).fold(0.0, f64::max) {
        most if most < 0.005 => String::new(),
        most => format!(
            " Here every log has the same prices; in the tables each has those of its models and its caches, which makes a difference of \
             up to {}.",
            fixed(most, 2)
        ),
    }
}

fn data(bills: &[Bill]) -> Table {
    let mut t = Table::new("money");
    t.text("variant", "its label", bills.iter().map(|bill| Some(bill.name.clone())));
    for (i, part) in PARTS.into_iter().enumerate() {
        t.fraction(
            &part.replace(' ', "_"),
            "as a share of the cost with nothing compressed",
            bills.iter().map(|bill| Some(bill.parts[i])),
        );
    }
    t.fraction("whole", "all of them", bills.iter().map(|bill| Some(bill.whole())));
    t
}

fn draw(width: f64, bills: &[Bill]) -> Canvas {
    let mut canvas = sheet(width, "Where the money goes, by variant");
    let (called, told) = plot::shared(&bills.iter().map(|bill| bill.name.as_str()).collect::<Vec<_>>());
    let longest = called.iter().map(|name| text_width(name, SIZE)).fold(0.0, f64::max);
    let names = longest.min(if is_wide(width) { 0.5 } else { 0.6 } * width) + 6.0;
    let (left, right) = (names, width - 19.0);
    let scale = Scale::around(bills.iter().map(Bill::whole).chain([0.0, 1.0]));
    let x = |share: f64| left + scale.share(share) * (right - left);
    let bottom = 2.0 + LINE * bills.len() as f64 + 2.0;
    for (i, of) in bills.iter().enumerate() {
        let top = 2.0 + i as f64 * LINE;
        let base = top + LINE / 2.0 + CAP_EM * SIZE / 2.0;
        canvas.text((0.5, base), Anchor::Start, SIZE, INK, &fitted_name(&called[i], SIZE, names - 4.0));
        let mut from = 0.0;
        for (part, share) in of.parts.into_iter().enumerate().filter(|(_, share)| *share > 0.0) {
            let cell = Rect { x0: x(from), y0: top + 1.2, x1: x(from + share), y1: top + LINE - 1.2 };
            bar(&mut canvas, cell, colour(part));
            from += share;
        }
        canvas.text((width - 0.5, base), Anchor::End, SIZE, INK, &fixed(from, 2));
    }
    dashed(&mut canvas, (x(1.0), 1.0), (x(1.0), bottom), INK);
    canvas.line(&[(left, bottom), (right, bottom)], 0.6, INK);
    for (value, text) in scale.ticks() {
        canvas.line(&[(x(value), bottom), (x(value), bottom + 2.5)], 0.5, INK);
        canvas.text((x(value), bottom + 10.0), Anchor::Middle, SIZE, INK, &text);
    }
    canvas.text((right, bottom + 20.0), Anchor::End, SIZE, INK, "cost, as a share of nothing compressed");
    let is_paid = |part: usize| bills.iter().any(|bill| bill.parts[part] > 0.0);
    let paid = PARTS.into_iter().enumerate().filter(|(part, _)| is_paid(*part));
    let swatches: Vec<(Colour, &str)> = paid.map(|(part, name)| (colour(part), name)).collect();
    canvas.height = plot::swatches(&mut canvas, bottom + 22.0, &swatches);
    if let Some(told) = told {
        let end = canvas.height;
        canvas.height = plot::note(&mut canvas, end, &told);
    }
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A long list loses its dearest rows, and never the one that all are shares of.
    #[test]
    fn nothing_compressed_stays_in_its_place() {
        let bill =
            |name: &str, whole: f64| Bill { name: name.to_owned(), parts: [whole, 0.0, 0.0, 0.0, 0.0] };
        let of = |n_dearer: usize, n_cheaper: usize| {
            let mut bills: Vec<Bill> =
                (0..n_cheaper).map(|i| bill("cheap", 0.1 + i as f64 / 100.0)).collect();
            bills.push(bill(FULL, 1.0));
            bills.extend((0..n_dearer).map(|_| bill("dear", 1.5)));
            shorten(&mut bills);
            (bills.len(), bills.iter().position(|bill| bill.name == FULL).unwrap())
        };
        assert_eq!([of(2, 3), of(30, 3), of(2, 30)], [(6, 3), (MOST, 3), (MOST, MOST - 1)]);
    }
}
