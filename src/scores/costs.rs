//! What a log itself says that its calls cost, beside what they cost by the prices of their models.

use super::money::Prices;
use crate::trajectory::{Trajectory, Usage};

/// The costs of a run, in US dollars.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Costs {
    /// Calls of which the log tells the cost.
    pub n_calls: u64,
    /// Their costs together.
    pub logged: f64,
    /// Those of the calls of which the prices are known, too.
    pub known: f64,
    /// What these cost by the prices.
    pub priced: f64,
}

impl Costs {
    pub fn of(run: &Trajectory) -> Self {
        let mut costs = Costs::default();
        for step in &run.steps {
            let Some((usage, cost)) = step.usage.as_deref().and_then(|usage| Some((usage, usage.cost?)))
            else {
                continue;
            };
            costs.n_calls += 1;
            costs.logged += cost;
            let model = step.model.as_deref().or(run.model.as_deref());
            if let Some(priced) = model.and_then(Prices::known).and_then(|prices| of_call(&prices, usage)) {
                costs.known += cost;
                costs.priced += priced;
            }
        }
        costs
    }

    /// The costs by the prices over those of the log.
    pub fn ratio(&self) -> Option<f64> {
        (self.known > 0.0).then(|| self.priced / self.known)
    }
}

/// What a call costs by what was counted for it; none if its prompt or its reply was not counted.
pub(crate) fn of_call(prices: &Prices, usage: &Usage) -> Option<f64> {
    if usage.input == 0 {
        return None;
    }
    let read = usage.cache_read.unwrap_or(0).min(usage.input);
    let written = usage.cache_write.unwrap_or(0).min(usage.input - read);
    let hour = usage.cache_write_1h.unwrap_or(0).min(written);
    let (prompt, answer) = prices.times(usage.input as f64);
    let parts = [
        (usage.input - read - written, prompt * prices.fresh),
        (read, prompt * prices.cache_read),
        (written - hour, prompt * prices.cache_write),
        (hour, prompt * prices.cache_write_1h.unwrap_or(prices.cache_write)),
        (usage.output?, answer * prices.output),
    ];
    Some(parts.iter().map(|(tokens, price)| *tokens as f64 * price).sum::<f64>() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Kind, Role, Step, step};

    #[test]
    fn calls_cost_what_was_counted() {
        let usage = Usage {
            input: 1_000_000,
            output: Some(100_000),
            cache_read: Some(600_000),
            cache_write: Some(300_000),
            cache_write_1h: Some(100_000),
            cost: Some(10.0),
            ..Usage::default()
        };
        // Claude Opus 4.5: 0.1 M fresh, 0.6 M read, 0.2 M and 0.1 M written, 0.1 M out.
        let opus = 0.5 + 0.3 + 1.25 + 1.0 + 2.5;
        let call = |usage: Usage, model: Option<&str>| Step {
            usage: Some(Box::new(usage)),
            model: model.map(Into::into),
            ..step(Role::Agent, Kind::Message, "x")
        };
        let steps = vec![
            call(usage, None),
            // A model without prices; a call without a cost; one whose reply was not counted.
            call(Usage { cost: Some(1.0), ..usage }, Some("none-such")),
            call(Usage { cost: None, ..usage }, None),
            call(Usage { output: None, cost: Some(2.0), ..usage }, None),
        ];
        let run = Trajectory { model: Some("claude-opus-4-5".to_owned()), steps, ..Trajectory::default() };
        let costs = Costs::of(&run);
        assert_eq!(costs, Costs { n_calls: 3, logged: 13.0, known: 10.0, priced: opus });
        assert_eq!(costs.ratio(), Some(opus / 10.0));
        assert_eq!(Costs::default().ratio(), None);
        // Long prompts cost five times as much.
        let haiku = Prices::known("claude-haiku-5-5").unwrap();
        let long = Usage { input: 200_000, output: Some(100_000), ..Usage::default() };
        assert_eq!(of_call(&haiku, &long), Some(0.1 + 0.25));
    }
}
