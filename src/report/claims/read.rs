//! Reads the file of claims: what it says is checked, with line and nearest right name.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::*;
use crate::report::load::STRATUM_KEYS;
use crate::settings::items;

/// Reads a file with the names that it may use.
struct Reader<'a> {
    source: &'a Source<'a>,
    known: Names,
    metrics: Vec<String>,
}

pub(super) fn read(source: &Source, names: &Names) -> anyhow::Result<Claims> {
    let root = source.root()?;
    let of_events = OF_EVENTS.map(|(name, _)| name).into_iter().chain([PAID_BACK]);
    let metrics = scores::all().map(|score| score.name).chain(of_events).map(str::to_owned).collect();
    let mut reader = Reader { source, known: names.clone(), metrics };
    let (mut claims, mut questions, mut planned) = (Vec::new(), Vec::new(), Vec::new());
    let all = items(root.get_ref());
    for (key, span, value) in &all {
        match *key {
            "not_yet" => planned = reader.not_yet(source.table(key, value)?)?,
            "claims" | "questions" => {}
            key => {
                return Err(source.unknown_key(span, key, "the file", &["not_yet", "claims", "questions"]));
            }
        }
    }
    for (key, _, value) in all.iter().filter(|(key, ..)| *key == "claims") {
        for (span, table) in source.tables(key, value)? {
            let claim: Claim = reader.claim(&span, table)?;
            if claims.iter().any(|c: &Claim| c.id == claim.id) {
                return Err(source.error(&span, format!("a second claim with the id `{}`", claim.id)));
            }
            claims.push(claim);
        }
    }
    let ids: Vec<&str> = claims.iter().map(|c| c.id.as_str()).collect();
    for (key, _, value) in all.iter().filter(|(key, ..)| *key == "questions") {
        for (span, table) in source.tables(key, value)? {
            questions.push(reader.question(&span, table, &ids)?);
        }
    }
    Ok(Claims {
        file: source.path.rsplit('/').next().unwrap_or_default().to_owned(),
        hash: blake3::hash(source.text.as_bytes()).to_hex()[..16].to_owned(),
        claims,
        questions,
        planned,
    })
}

const PROSE: [&str; 7] = ["id", "claim", "source", "figure", "family", "how", "not_testable"];
const SIDE: [&str; 8] =
    ["metric", "stratum", "field", "strategy", "trigger", "formats", "min_turns", "max_turns"];
const TEST: [&str; 9] =
    ["kind", "than", "points", "direction", "claimed", "margin", "bound", "possible", "matched"];

impl Reader<'_> {
    fn not_yet(&mut self, table: &DeTable) -> anyhow::Result<Vec<(String, String)>> {
        let mut planned = Vec::new();
        for (key, span, value) in items(table) {
            let list = self.source.strings(key, value)?;
            let known = match key {
                "strategies" => &mut self.known.strategies,
                "triggers" => &mut self.known.triggers,
                "metrics" => &mut self.metrics,
                _ => {
                    let known = ["strategies", "triggers", "metrics"];
                    return Err(self.source.unknown_key(&span, key, "`not_yet`", &known));
                }
            };
            // A name that has been built since is not planned any more.
            let new = list.into_iter().filter(|name| !known.contains(name)).collect::<Vec<_>>();
            planned.extend(new.iter().map(|name| (key.to_owned(), name.clone())));
            known.extend(new);
        }
        Ok(planned)
    }

    fn claim(&self, span: &Range<usize>, table: &DeTable) -> anyhow::Result<Claim> {
        let source = self.source;
        let known: Vec<&str> = PROSE.into_iter().chain(SIDE).chain(TEST).collect();
        let mut prose: [Option<String>; PROSE.len()] = Default::default();
        let mut is_test = false;
        for (key, span, value) in items(table) {
            match PROSE.iter().position(|k| *k == key) {
                Some(i) => prose[i] = Some(source.string(key, value)?),
                None if known.contains(&key) => is_test = true,
                None => return Err(source.unknown_key(&span, key, "a claim", &known)),
            }
        }
        let [id, claim, from, figure, family, how, not_testable] = prose;
        let needed = |name: &str, value: Option<String>| {
            value.ok_or_else(|| source.error(span, format!("a claim without `{name}`")))
        };
        let id = needed("id", id)?;
        let test = match not_testable {
            Some(_) if is_test => {
                let message = format!("claim `{id}` is `not_testable` and has a test as well");
                return Err(source.error(span, message));
            }
            Some(why) => Err(why),
            None => Ok(self.test(span, &id, table)?),
        };
        Ok(Claim {
            claim: needed("claim", claim)?,
            source: needed("source", from)?,
            figure: figure.unwrap_or_else(|| "-".to_owned()),
            family: needed("family", family)?,
            how: if test.is_err() { how.unwrap_or_default() } else { needed("how", how)? },
            test,
            id,
        })
    }

    fn test(&self, span: &Range<usize>, id: &str, table: &DeTable) -> anyhow::Result<Test> {
        let source = self.source;
        let get = |key: &str| items(table).into_iter().find(|(k, ..)| *k == key).map(|(.., v)| v);
        let needed =
            |key: &str| get(key).ok_or_else(|| source.error(span, format!("claim `{id}` has no `{key}`")));
        let kind = self.choice("kind", needed("kind")?, &KINDS)?;
        let mut of = self.side(table, Side::default(), &[&PROSE[..], &TEST[..]].concat())?;
        for (key, missing) in
            [("metric", of.asked.metric.is_empty()), ("strategy", of.strategy.names.is_empty())]
        {
            if missing {
                needed(key)?;
            }
        }
        let (mut than, mut steps) = (None, 1.0);
        match (kind, get("than"), get("points")) {
            (Kind::Value, None, None) => {}
            (Kind::Difference | Kind::Ratio, Some(value), None) => {
                let table = source.table("than", value)?;
                let mut base = of.clone();
                // A range of turns is one thing.
                if items(table).iter().any(|(key, ..)| ["min_turns", "max_turns"].contains(key)) {
                    (base.logs.min_turns, base.logs.max_turns) = (None, None);
                }
                than = Some(self.side(table, base, &[])?);
            }
            (Kind::Trend, None, Some(value)) => {
                let points: Vec<u32> = source
                    .array("points", value)?
                    .iter()
                    .map(|v| source.whole("points", v))
                    .collect::<anyhow::Result<_>>()?;
                let &[first, last] = &points[..] else {
                    return Err(source.wrong_type("points", value, "two compression points"));
                };
                if first >= last {
                    return Err(source.error(&value.span(), "`points` do not rise"));
                }
                let at = |point: u32| {
                    let stratum = Stratum::parse(&format!("{} point={point}", of.asked.stratum)).to_string();
                    Side { asked: Asked { stratum, ..of.asked.clone() }, ..of.clone() }
                };
                (than, steps) = (Some(at(first)), f64::from(last - first));
                of = at(last);
            }
            _ => {
                let message = "a `value` has neither `than` nor `points`, a `difference` or `ratio` has `than`, \
                               a `trend` has `points`";
                return Err(source.error(span, format!("claim `{id}`: {message}")));
            }
        }
        let possible = match get("possible").map(|value| (value, value.get_ref())) {
            None => false,
            Some((_, DeValue::Boolean(possible))) => *possible,
            Some((value, _)) => return Err(source.wrong_type("possible", value, "a boolean")),
        };
        let matched = match get("matched") {
            None => None,
            Some(value) => Some(self.matched(span, source.table("matched", value)?)?),
        };
        Ok(Test {
            kind,
            of,
            than,
            steps,
            region: self.region(needed("direction")?, needed("claimed")?, needed("margin")?)?,
            bound: get("bound").map(|value| self.choice("bound", value, &BOUNDS)).transpose()?,
            possible,
            matched,
        })
    }

    /// The keys of a side over those of another; `others` belong to somebody else.
    fn side(&self, table: &DeTable, mut side: Side, others: &[&str]) -> anyhow::Result<Side> {
        let source = self.source;
        for (key, span, value) in items(table) {
            match key {
                "metric" => {
                    side.asked.metric = self.names("score", key, value, &self.metrics)?.swap_remove(0);
                }
                "stratum" => side.asked.stratum = self.stratum(value)?,
                "field" => side.asked.field = self.choice(key, value, &FIELDS)?,
                "strategy" => side.strategy = self.pick(key, value, &self.known.strategies)?,
                "trigger" => side.trigger = self.pick(key, value, &self.known.triggers)?,
                "formats" => side.logs.formats = self.names("format", key, value, &self.known.formats)?,
                "min_turns" => side.logs.min_turns = Some(source.whole(key, value)?),
                "max_turns" => side.logs.max_turns = Some(source.whole(key, value)?),
                _ if others.contains(&key) => {}
                _ => return Err(source.unknown_key(&span, key, "a side", &SIDE)),
            }
        }
        Ok(side)
    }

    /// A name, or a list of names, out of those that are known.
    fn names(
        &self,
        what: &str,
        key: &str,
        value: &Spanned<DeValue>,
        known: &[String],
    ) -> anyhow::Result<Vec<String>> {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let one = |v: &Spanned<DeValue>| {
            let name = self.source.string(key, v)?;
            self.source.right_name(what, &name, &known, &v.span())?;
            anyhow::Ok(name)
        };
        match value.get_ref() {
            DeValue::Array(list) if !list.is_empty() && key != "metric" => list.iter().map(one).collect(),
            _ => Ok(vec![one(value)?]),
        }
    }

    /// `"mask"`, `["mask", "truncate"]` or `{ name = .., keep_last = 10 }`.
    fn pick(&self, key: &str, value: &Spanned<DeValue>, known: &[String]) -> anyhow::Result<Pick> {
        let DeValue::Table(table) = value.get_ref() else {
            return Ok(Pick { names: self.names(key, key, value, known)?, params: Vec::new() });
        };
        let mut pick = Pick::default();
        for (param, _, value) in items(table) {
            match param {
                "name" => pick.names = self.names(key, param, value, known)?,
                _ => pick.params.push((param.to_owned(), self.source.value(param, value)?)),
            }
        }
        if pick.names.is_empty() {
            return Err(self.source.error(&value.span(), format!("`{key}` without `name`")));
        }
        Ok(pick)
    }

    fn stratum(&self, value: &Spanned<DeValue>) -> anyhow::Result<String> {
        let text = self.source.string("stratum", value)?;
        let of_scores = scores::all().flat_map(|score| score.strata).copied();
        let mut known: Vec<&str> = STRATUM_KEYS.into_iter().chain(MORE_STRATUM_KEYS).collect();
        for key in of_scores {
            if !known.contains(&key) {
                known.push(key);
            }
        }
        for part in text.split_whitespace() {
            let key = part.split('=').next().unwrap_or_default();
            self.source.right_name("key of a stratum", key, &known, &value.span())?;
        }
        Ok(Stratum::parse(&text).to_string())
    }

    fn choice<T: Copy>(
        &self,
        key: &str,
        value: &Spanned<DeValue>,
        choices: &[(&str, T)],
    ) -> anyhow::Result<T> {
        let known: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let name = self.source.string(key, value)?;
        Ok(choices[self.source.right_name(key, &name, &known, &value.span())?].1)
    }

    fn number(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<f64> {
        match self.source.value(key, value)? {
            toml::Value::Integer(i) => Ok(i as f64),
            toml::Value::Float(x) => Ok(x),
            _ => Err(self.source.wrong_type(key, value, "a number")),
        }
    }

    fn region(
        &self,
        direction: &Spanned<DeValue>,
        claimed: &Spanned<DeValue>,
        margin: &Spanned<DeValue>,
    ) -> anyhow::Result<Region> {
        let source = self.source;
        let choices = [("near", 0), ("at_least", 1), ("at_most", -1)];
        let towards = self.choice("direction", direction, &choices)?;
        let m = self.number("margin", margin)?;
        if m < 0.0 {
            return Err(source.error(&margin.span(), "`margin` is below 0"));
        }
        let (from, to) = match claimed.get_ref() {
            DeValue::Array(range) if towards == 0 && range.len() == 2 => {
                (self.number("claimed", &range[0])?, self.number("claimed", &range[1])?)
            }
            DeValue::Array(_) => {
                let expected = "a number, or for `near` a list of two";
                return Err(source.wrong_type("claimed", claimed, expected));
            }
            _ => {
                let x = self.number("claimed", claimed)?;
                (x, x)
            }
        };
        if from > to {
            return Err(source.error(&claimed.span(), "`claimed` does not rise"));
        }
        let given = |sign: &str| if m > 0.0 { format!(" {sign} {m}") } else { String::new() };
        Ok(match towards {
            1 => {
                Region { low: from - m, high: f64::INFINITY, words: format!("at least {from}{}", given("-")) }
            }
            -1 => {
                Region { low: f64::NEG_INFINITY, high: to + m, words: format!("at most {to}{}", given("+")) }
            }
            _ if from < to => {
                Region { low: from - m, high: to + m, words: format!("{from} to {to}{}", given("±")) }
            }
            _ => Region { low: from - m, high: to + m, words: format!("{from}{}", given("±")) },
        })
    }

    fn matched(&self, span: &Range<usize>, table: &DeTable) -> anyhow::Result<(Asked, f64)> {
        let (mut asked, mut within) = (None, None);
        for (key, span, value) in items(table) {
            match key {
                "metric" => {
                    let metric = self.names("score", key, value, &self.metrics)?.swap_remove(0);
                    asked = Some(Asked { metric, ..Asked::default() });
                }
                "within" => within = Some(self.number(key, value)?),
                _ => return Err(self.source.unknown_key(&span, key, "`matched`", &["metric", "within"])),
            }
        }
        asked.zip(within).ok_or_else(|| self.source.error(span, "`matched` needs `metric` and `within`"))
    }

    fn question(&self, span: &Range<usize>, table: &DeTable, ids: &[&str]) -> anyhow::Result<Question> {
        const KEYS: [&str; 4] = ["question", "source", "recipe", "claims"];
        let source = self.source;
        let mut prose: [Option<String>; 3] = Default::default();
        let mut claims = Vec::new();
        for (key, span, value) in items(table) {
            match KEYS.iter().position(|k| *k == key) {
                Some(3) => {
                    claims = source.strings(key, value)?;
                    for id in &claims {
                        source.right_name("claim", id, ids, &value.span())?;
                    }
                }
                Some(i) => prose[i] = Some(source.string(key, value)?),
                None => return Err(source.unknown_key(&span, key, "a question", &KEYS)),
            }
        }
        let [Some(question), Some(from), Some(recipe)] = prose else {
            return Err(source.error(span, "a question needs `question`, `source` and `recipe`"));
        };
        Ok(Question { question, source: from, recipe, claims })
    }
}
