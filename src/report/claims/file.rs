//! Claims as they are written: TOML, checked against the names of the program.

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use toml::Spanned;

use super::super::load::{STRATUM_KEYS, Stratum};
use super::{
    Asked, Bound, Claim, Claims, Kind, Names, OF_EVENTS, PAID_BACK, Pick, Question, Region, Side, Test,
};
use crate::scores::{self, registry::Field};
use crate::settings::{OneOrMore, Source};

/// Keys of strata that only claims have.
const MORE_STRATUM_KEYS: [&str; 2] = ["within", "tier"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    not_yet: NotYet,
    #[serde(default)]
    claims: Vec<Spanned<WrittenClaim>>,
    #[serde(default)]
    questions: Vec<Spanned<WrittenQuestion>>,
}

#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct NotYet {
    strategies: Vec<String>,
    triggers: Vec<String>,
    metrics: Vec<String>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct WrittenClaim {
    id: String,
    claim: String,
    source: String,
    figure: Option<String>,
    family: String,
    how: Option<String>,
    not_testable: Option<String>,
    // A side, as below: serde loses the places of what it flattens.
    metric: Option<Spanned<String>>,
    stratum: Option<Spanned<String>>,
    field: Option<Field>,
    strategy: Option<Spanned<WrittenPick>>,
    trigger: Option<Spanned<WrittenPick>>,
    formats: Option<Spanned<OneOrMore>>,
    min_turns: Option<u32>,
    max_turns: Option<u32>,
    kind: Option<Kind>,
    than: Option<WrittenSide>,
    points: Option<Spanned<[u32; 2]>>,
    direction: Option<Direction>,
    claimed: Option<Spanned<Claimed>>,
    margin: Option<Spanned<f64>>,
    bound: Option<Bound>,
    possible: Option<bool>,
    matched: Option<Matched>,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields)]
struct WrittenSide {
    metric: Option<Spanned<String>>,
    stratum: Option<Spanned<String>>,
    field: Option<Field>,
    strategy: Option<Spanned<WrittenPick>>,
    trigger: Option<Spanned<WrittenPick>>,
    formats: Option<Spanned<OneOrMore>>,
    min_turns: Option<u32>,
    max_turns: Option<u32>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Direction {
    Near,
    AtLeast,
    AtMost,
}

#[derive(Deserialize, PartialEq)]
#[serde(untagged, expecting = "expected a number, or for `near` a list of two")]
enum Claimed {
    One(f64),
    Range([f64; 2]),
}

#[derive(Deserialize, PartialEq)]
#[serde(deny_unknown_fields)]
struct Matched {
    metric: Spanned<String>,
    within: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenQuestion {
    question: String,
    source: String,
    recipe: String,
    #[serde(default)]
    claims: Vec<Spanned<String>>,
}

/// `"mask"`, `["mask", "truncate"]` or `{ name = .., keep_last = 10 }`.
#[derive(Default, PartialEq)]
struct WrittenPick {
    names: Vec<Spanned<String>>,
    /// In the order of the file.
    params: Vec<(Spanned<String>, toml::Value)>,
}

impl<'de> Deserialize<'de> for WrittenPick {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(AnyPick)
    }
}

struct AnyPick;

impl<'de> Visitor<'de> for AnyPick {
    type Value = WrittenPick;

    fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str("a name, a list of names, or a table with `name` and parameters")
    }

    fn visit_str<E>(self, name: &str) -> Result<WrittenPick, E> {
        // Its place is that of the whole.
        Ok(WrittenPick { names: vec![Spanned::new(0..0, name.to_owned())], params: Vec::new() })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<WrittenPick, A::Error> {
        let mut pick = WrittenPick::default();
        while let Some(name) = list.next_element()? {
            pick.names.push(name);
        }
        Ok(pick)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut table: A) -> Result<WrittenPick, A::Error> {
        let mut pick = WrittenPick::default();
        while let Some(key) = table.next_key::<Spanned<String>>()? {
            match key.get_ref().as_str() {
                "name" => pick.names = table.next_value::<WrittenPick>()?.names,
                _ => pick.params.push((key, table.next_value()?)),
            }
        }
        pick.params.sort_by_key(|(key, _)| key.span().start);
        Ok(pick)
    }
}

/// Checks a file with the names that it may use.
struct Reader<'a> {
    source: &'a Source<'a>,
    known: Names,
    metrics: Vec<String>,
}

pub(super) fn read(source: &Source, names: &Names) -> anyhow::Result<Claims> {
    let file: File = source.read()?;
    let of_events = OF_EVENTS.map(|(name, _)| name).into_iter().chain([PAID_BACK]);
    let metrics = scores::all().map(|score| score.name).chain(of_events).map(str::to_owned).collect();
    let mut reader = Reader { source, known: names.clone(), metrics };
    let planned = reader.not_yet(file.not_yet);
    let mut claims: Vec<Claim> = Vec::new();
    for written in file.claims {
        let span = written.span();
        let claim = reader.claim(&span, written.into_inner())?;
        if claims.iter().any(|c| c.id == claim.id) {
            return Err(source.error(&span, format!("a second claim with the id `{}`", claim.id)));
        }
        claims.push(claim);
    }
    let ids: Vec<&str> = claims.iter().map(|c| c.id.as_str()).collect();
    let mut questions = Vec::new();
    for WrittenQuestion { question, source: from, recipe, claims } in
        file.questions.into_iter().map(Spanned::into_inner)
    {
        for id in &claims {
            source.right_name("claim", id.get_ref(), &ids, &id.span())?;
        }
        let claims = claims.into_iter().map(Spanned::into_inner).collect();
        questions.push(Question { question, source: from, recipe, claims });
    }
    Ok(Claims {
        file: source.path.rsplit('/').next().unwrap_or_default().to_owned(),
        hash: blake3::hash(source.text.as_bytes()).to_hex()[..16].to_owned(),
        claims,
        questions,
        planned,
    })
}

impl Reader<'_> {
    /// Makes planned names known. One that has been built since is not planned any more.
    fn not_yet(&mut self, NotYet { strategies, triggers, metrics }: NotYet) -> Vec<(String, String)> {
        let mut planned = Vec::new();
        for (list, names, known) in [
            ("strategies", strategies, &mut self.known.strategies),
            ("triggers", triggers, &mut self.known.triggers),
            ("metrics", metrics, &mut self.metrics),
        ] {
            for name in names {
                if !known.contains(&name) {
                    planned.push((list.to_owned(), name.clone()));
                    known.push(name);
                }
            }
        }
        planned
    }

    fn claim(&self, span: &Range<usize>, mut written: WrittenClaim) -> anyhow::Result<Claim> {
        let [id, claim, source, family] =
            [&mut written.id, &mut written.claim, &mut written.source, &mut written.family]
                .map(std::mem::take);
        let [figure, how, not_testable] =
            [&mut written.figure, &mut written.how, &mut written.not_testable].map(Option::take);
        // What is left of it is its test.
        let test = match not_testable {
            Some(_) if written != WrittenClaim::default() => {
                let message = format!("claim `{id}` is `not_testable` and has a test as well");
                return Err(self.source.error(span, message));
            }
            Some(why) => Err(why),
            None => Ok(self.test(span, &id, written)?),
        };
        let how = match (&test, how) {
            (Ok(_), None) => return Err(self.lacks(span, &id, "how")),
            (_, how) => how.unwrap_or_default(),
        };
        let figure = figure.unwrap_or_else(|| "-".to_owned());
        Ok(Claim { id, claim, source, figure, family, how, test })
    }

    fn lacks(&self, span: &Range<usize>, id: &str, key: &str) -> anyhow::Error {
        self.source.error(span, format!("claim `{id}` has no `{key}`"))
    }

    fn test(&self, span: &Range<usize>, id: &str, mut written: WrittenClaim) -> anyhow::Result<Test> {
        let lacks = |key: &str| self.lacks(span, id, key);
        let kind = written.kind.ok_or_else(|| lacks("kind"))?;
        let mut of = self.side(written.side(), Side::default())?;
        if of.asked.metric.is_empty() {
            return Err(lacks("metric"));
        }
        if of.strategy.names.is_empty() {
            return Err(lacks("strategy"));
        }
        let (mut than, mut steps) = (None, 1.0);
        match (kind, written.than, written.points) {
            (Kind::Value, None, None) => {}
            (Kind::Difference | Kind::Ratio, Some(side), None) => {
                let mut base = of.clone();
                // A range of turns is one thing.
                if side.min_turns.or(side.max_turns).is_some() {
                    (base.logs.min_turns, base.logs.max_turns) = (None, None);
                }
                than = Some(self.side(side, base)?);
            }
            (Kind::Trend, None, Some(points)) => {
                let [first, last] = *points.get_ref();
                if first >= last {
                    return Err(self.source.error(&points.span(), "`points` do not rise"));
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
                return Err(self.source.error(span, format!("claim `{id}`: {message}")));
            }
        }
        let direction = written.direction.ok_or_else(|| lacks("direction"))?;
        let claimed = written.claimed.ok_or_else(|| lacks("claimed"))?;
        let margin = written.margin.ok_or_else(|| lacks("margin"))?;
        let matched = written.matched.map(|matched| {
            let asked = Asked { metric: self.metric(matched.metric)?, ..Asked::default() };
            anyhow::Ok((asked, matched.within))
        });
        Ok(Test {
            kind,
            of,
            than,
            steps,
            region: self.region(direction, &claimed, &margin)?,
            bound: written.bound,
            possible: written.possible.unwrap_or(false),
            matched: matched.transpose()?,
        })
    }

    /// What is written of a side over another.
    fn side(&self, written: WrittenSide, mut side: Side) -> anyhow::Result<Side> {
        if let Some(metric) = written.metric {
            side.asked.metric = self.metric(metric)?;
        }
        if let Some(stratum) = written.stratum {
            side.asked.stratum = self.stratum(&stratum)?;
        }
        if let Some(strategy) = written.strategy {
            side.strategy = self.pick("strategy", strategy, &self.known.strategies)?;
        }
        if let Some(trigger) = written.trigger {
            side.trigger = self.pick("trigger", trigger, &self.known.triggers)?;
        }
        if let Some(formats) = written.formats {
            let span = formats.span();
            side.logs.formats = formats.into_inner().into_vec();
            for format in &side.logs.formats {
                self.right_name("format", format, &self.known.formats, &span)?;
            }
        }
        side.asked.field = written.field.unwrap_or(side.asked.field);
        side.logs.min_turns = written.min_turns.or(side.logs.min_turns);
        side.logs.max_turns = written.max_turns.or(side.logs.max_turns);
        Ok(side)
    }

    fn right_name(
        &self,
        what: &str,
        name: &str,
        known: &[String],
        span: &Range<usize>,
    ) -> anyhow::Result<()> {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.source.right_name(what, name, &known, span).map(drop)
    }

    fn metric(&self, name: Spanned<String>) -> anyhow::Result<String> {
        self.right_name("score", name.get_ref(), &self.metrics, &name.span())?;
        Ok(name.into_inner())
    }

    fn pick(&self, key: &str, written: Spanned<WrittenPick>, known: &[String]) -> anyhow::Result<Pick> {
        let whole = written.span();
        let WrittenPick { names, params } = written.into_inner();
        if names.is_empty() {
            return Err(self.source.error(&whole, format!("`{key}` without `name`")));
        }
        for name in &names {
            let span = Some(name.span()).filter(|span| !span.is_empty()).unwrap_or(whole.clone());
            self.right_name(key, name.get_ref(), known, &span)?;
        }
        Ok(Pick {
            names: names.into_iter().map(Spanned::into_inner).collect(),
            params: params.into_iter().map(|(key, value)| (key.into_inner(), value)).collect(),
        })
    }

    fn stratum(&self, text: &Spanned<String>) -> anyhow::Result<String> {
        let of_scores = scores::all().flat_map(|score| score.strata).copied();
        let mut known: Vec<&str> = STRATUM_KEYS.iter().copied().chain(MORE_STRATUM_KEYS).collect();
        for key in of_scores {
            if !known.contains(&key) {
                known.push(key);
            }
        }
        for part in text.get_ref().split_whitespace() {
            let key = part.split('=').next().unwrap_or_default();
            self.source.right_name("key of a stratum", key, &known, &text.span())?;
        }
        Ok(Stratum::parse(text.get_ref()).to_string())
    }

    fn region(
        &self,
        direction: Direction,
        claimed: &Spanned<Claimed>,
        margin: &Spanned<f64>,
    ) -> anyhow::Result<Region> {
        let m = *margin.get_ref();
        if !m.is_finite() || m < 0.0 {
            return Err(self.source.error(&margin.span(), "`margin` is below 0"));
        }
        let (from, to) = match *claimed.get_ref() {
            Claimed::Range([from, to]) if direction == Direction::Near => (from, to),
            Claimed::Range(_) => {
                let message = "`claimed` is a list, expected a number, or for `near` a list of two";
                return Err(self.source.error(&claimed.span(), message));
            }
            Claimed::One(x) => (x, x),
        };
        if !(from.is_finite() && to.is_finite() && from <= to) {
            return Err(self.source.error(&claimed.span(), "`claimed` does not rise"));
        }
        let given = |sign: &str| if m > 0.0 { format!(" {sign} {m}") } else { String::new() };
        let (low, high, words) = match direction {
            Direction::AtLeast => (from - m, f64::INFINITY, format!("at least {from}{}", given("-"))),
            Direction::AtMost => (f64::NEG_INFINITY, to + m, format!("at most {to}{}", given("+"))),
            Direction::Near if from < to => (from - m, to + m, format!("{from} to {to}{}", given("±"))),
            Direction::Near => (from - m, to + m, format!("{from}{}", given("±"))),
        };
        Ok(Region { low, high, words })
    }
}

impl WrittenClaim {
    /// Its own side.
    fn side(&mut self) -> WrittenSide {
        WrittenSide {
            metric: self.metric.take(),
            stratum: self.stratum.take(),
            field: self.field,
            strategy: self.strategy.take(),
            trigger: self.trigger.take(),
            formats: self.formats.take(),
            min_turns: self.min_turns,
            max_turns: self.max_turns,
        }
    }
}
