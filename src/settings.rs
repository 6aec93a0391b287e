//! TOML that people write, read by serde: what is wrong is told with file, line, the nearest right name and what is
//! allowed. Knows nothing of what any key means.

use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, ValueDeserializer};

use crate::text::escape::short;

/// A file's path and text, for the positions in errors.
pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

/// One or a list: `"a"` is `["a"]`.
#[derive(Deserialize, PartialEq)]
#[serde(untagged, expecting = "expected a string or a list of strings")]
pub enum OneOrMore {
    One(String),
    More(Vec<String>),
}

impl OneOrMore {
    pub fn is_empty(&self) -> bool {
        matches!(self, OneOrMore::More(more) if more.is_empty())
    }

    pub fn into_vec(self) -> Vec<String> {
        match self {
            OneOrMore::One(one) => vec![one],
            OneOrMore::More(more) => more,
        }
    }
}

impl<'a> Source<'a> {
    /// The whole file as a table. Fails with file and line if it is no TOML.
    pub fn root(&self) -> anyhow::Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text)
            .map_err(|e| self.error(&e.span().unwrap_or(0..0), format!("not TOML: {}", e.message())))
    }

    /// The whole file as what it should be.
    pub fn read<T: DeserializeOwned>(&self) -> anyhow::Result<T> {
        let root = self.root()?;
        // Without the text in it the error names the keys, and not a piece of the file.
        T::deserialize(Deserializer::from(root.clone())).map_err(|error| {
            let told = self.told("", &error);
            match error.span().filter(|_| error.message().starts_with("missing field ")) {
                Some(at) => anyhow::anyhow!("{told}\nhint: its keys are {}", keys::<T>(root, &at).join(", ")),
                None => told,
            }
        })
    }

    /// The value of a key as what it should be.
    pub fn value<T: DeserializeOwned>(&self, key: &str, value: &Spanned<DeValue<'a>>) -> anyhow::Result<T> {
        T::deserialize(ValueDeserializer::from(value.clone())).map_err(|error| self.told(key, &error))
    }

    /// A table as what it should be.
    pub fn table<T: DeserializeOwned>(&self, at: &Range<usize>, table: &DeTable<'_>) -> anyhow::Result<T> {
        let value = Spanned::new(at.clone(), DeValue::Table(table.clone()));
        T::deserialize(ValueDeserializer::from(value)).map_err(|error| self.told("", &error))
    }

    /// Where a key of the table at a place stands; the table's place if it is not there.
    pub fn place(&self, at: &Range<usize>, key: &str) -> Range<usize> {
        let place = self.root().ok().and_then(|mut root| {
            let table = table_at(root.get_mut(), at)?;
            table.get_key_value(key).map(|(key, _)| key.span())
        });
        place.unwrap_or(at.clone())
    }

    /// Number of the line, from 1, that holds a byte of the text.
    pub fn line(&self, offset: usize) -> usize {
        let before = &self.text.as_bytes()[..offset.min(self.text.len())];
        1 + before.iter().filter(|&&b| b == b'\n').count()
    }

    /// An error at the line where a span begins.
    pub fn error(&self, span: &Range<usize>, message: impl std::fmt::Display) -> anyhow::Error {
        anyhow::anyhow!("{}:{}: {message}", self.path, self.line(span.start))
    }

    /// Place of a name among the known ones. Fails with the nearest one; `what` is the kind of thing named.
    pub fn right_name(
        &self,
        what: &str,
        name: &str,
        known: &[&str],
        span: &Range<usize>,
    ) -> anyhow::Result<usize> {
        known.iter().position(|k| *k == name).ok_or_else(|| {
            let hint = hint(name, known);
            self.error(span, format!("unknown {what} `{}`\n{hint}", short(name)))
        })
    }

    /// An error for a key that its owner does not know.
    pub fn unknown_key(&self, span: &Range<usize>, key: &str, owner: &str, known: &[&str]) -> anyhow::Error {
        let hint = hint(key, known);
        self.error(span, format!("unknown key `{}` of {owner}\n{hint}", short(key)))
    }

    /// An error of serde in our words, for what is read of the key `outer` (empty: of the file).
    fn told(&self, outer: &str, error: &toml::de::Error) -> anyhow::Error {
        let (span, message, text) = (error.span().unwrap_or(0..0), error.message(), error.to_string());
        let inner = text.trim_end().rsplit_once("\nin `").map_or("", |(_, keys)| keys.trim_end_matches('`'));
        let path: Vec<&str> = [outer, inner].into_iter().filter(|keys| !keys.is_empty()).collect();
        let path = path.join(".");
        let key = path.rsplit('.').next().unwrap_or_default();
        let written = short(self.text.get(span.clone()).unwrap_or_default());
        let owner = if path.is_empty() { "the file".to_owned() } else { format!("`{path}`") };
        if let Some((name, known)) = expected("unknown field", message) {
            return self.unknown_key(&span, name, &owner, &known);
        }
        if let Some((name, known)) = expected("unknown variant", message) {
            // Where keys are names of a list, too.
            let what = if written.starts_with(['"', '\'']) { "value" } else { "key" };
            let hint = hint(name, &known);
            return self.error(&span, format!("unknown {what} `{}` of {owner}\n{hint}", short(name)));
        }
        if let Some(missing) = message.strip_prefix("missing field ") {
            return self.error(&span, format!("{owner} lacks {missing}"));
        }
        if message.ends_with(" number overflowed") {
            return self.error(&span, format!("`{key} = {written}` is out of range"));
        }
        let wrong = ["invalid type: ", "invalid value: "].iter().find_map(|kind| message.strip_prefix(kind));
        let Some((found, expected)) = wrong.and_then(|wrong| wrong.rsplit_once(", expected ")) else {
            // Our own rules. A value of several parts is not repeated.
            let shown = if written.starts_with(['[', '{']) { String::new() } else { format!(" = {written}") };
            return self.error(&span, format!("`{key}{shown}`: {message}"));
        };
        if found == "integer `0`" && expected.starts_with("a nonzero ") {
            return self.error(&span, format!("`{key} = 0`, expected at least 1"));
        }
        if found.starts_with("integer") && (is_whole(expected) || expected == "any valid TOML value") {
            return self.error(&span, format!("`{key} = {written}` is out of range"));
        }
        self.mistyped(key, &span, found, expected)
    }

    /// An error for a value of another type than expected, told in words of serde or of TOML.
    fn mistyped(&self, key: &str, span: &Range<usize>, found: &str, expected: &str) -> anyhow::Error {
        let is_date =
            self.text.get(span.start..).is_some_and(|s| s.starts_with(|c: char| c.is_ascii_digit()));
        let found = match found.split(' ').next().unwrap_or_default() {
            "string" => "a string",
            "integer" => "a whole number",
            "float" | "floating" => "a fraction",
            "boolean" => "a boolean",
            "datetime" => "a date",
            "map" if is_date => "a date",
            "map" | "table" => "a table",
            "sequence" | "array" => "a list",
            _ => found,
        };
        let expected = match expected {
            "a boolean" => "true or false".to_owned(),
            "f64" => "a number".to_owned(),
            "a sequence" if found == "a table" => format!("tables, each under `[[{key}]]`"),
            "a sequence" => "a list".to_owned(),
            "a map" => format!("a section `[{key}]`"),
            _ if expected.starts_with("struct ") => format!("a section `[{key}]`"),
            _ if is_whole(expected) => "a whole number".to_owned(),
            _ => expected.to_owned(),
        };
        self.error(span, format!("`{key}` is {found}, expected {expected}"))
    }

    /// An error for a value of another type than expected.
    pub fn wrong_type(&self, key: &str, value: &Spanned<DeValue>, expected: &str) -> anyhow::Error {
        self.mistyped(key, &value.span(), value.get_ref().type_str(), expected)
    }
}

/// The wrong name and the right ones in an error of serde.
fn expected<'e>(what: &str, message: &'e str) -> Option<(&'e str, Vec<&'e str>)> {
    let (name, known) = message.strip_prefix(what)?.strip_prefix(" `")?.rsplit_once("`, expected ")?;
    Some((name, known.split('`').skip(1).step_by(2).collect()))
}

/// What serde says of a field that it does not know, in our words.
pub fn unknown_field(message: &str) -> Option<String> {
    let (name, known) = expected("unknown field", message)?;
    Some(format!("unknown key `{}`\n{}", short(name), hint(name, &known)))
}

/// The keys that the table at a place may have: those that serde expects where it finds one without a name.
fn keys<T: DeserializeOwned>(mut root: Spanned<DeTable>, at: &Range<usize>) -> Vec<String> {
    if let Some(table) = table_at(root.get_mut(), at) {
        let wrong = Spanned::new(at.clone(), DeValue::Boolean(true));
        table.insert(Spanned::new(at.clone(), "".into()), wrong);
    }
    let error = T::deserialize(Deserializer::from(root)).err();
    let message = error.as_ref().map_or("", |error| error.message());
    let keys = expected("unknown field", message).map_or(Vec::new(), |(_, known)| known);
    keys.into_iter().map(str::to_owned).collect()
}

/// The table at a place, somewhere in another.
fn table_at<'t, 'a>(table: &'t mut DeTable<'a>, at: &Range<usize>) -> Option<&'t mut DeTable<'a>> {
    fn of<'t, 'a>(value: &'t mut Spanned<DeValue<'a>>, at: &Range<usize>) -> Option<&'t mut DeTable<'a>> {
        let is_it = value.span() == *at;
        match value.get_mut() {
            DeValue::Table(table) => {
                if is_it {
                    Some(table)
                } else {
                    table_at(table, at)
                }
            }
            DeValue::Array(array) => array.iter_mut().find_map(|value| of(value, at)),
            _ => None,
        }
    }
    table.iter_mut().find_map(|(_, value)| of(value, at))
}

/// Whether serde expects a whole number.
fn is_whole(expected: &str) -> bool {
    ["u8", "u32", "u64", "usize", "i64"].contains(&expected.trim_start_matches("a nonzero "))
}

/// A value as people write it, in a message or a label: `1e300`, and not its 300 zeros.
pub fn written(value: &toml::Value) -> String {
    match value {
        toml::Value::Float(number) => format!("{number:?}"),
        toml::Value::Array(list) => format!("[{}]", list.iter().map(written).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// A key with its value, in the order of the file.
pub type Item<'a> = (&'a str, Range<usize>, &'a Spanned<DeValue<'a>>);

/// A table's keys in the order of the file.
pub fn items<'a>(table: &'a DeTable<'a>) -> Vec<Item<'a>> {
    let mut items: Vec<Item> = table.iter().map(|(k, v)| (k.get_ref().as_ref(), k.span(), v)).collect();
    items.sort_by_key(|item| item.1.start);
    items
}

/// So many letters that a name begins with tell it.
const BEGUN: usize = 3;

/// The `hint:` line of a wrong name: the nearest right one, where one is near, and all of them.
pub fn hint(wrong: &str, known: &[&str]) -> String {
    // `claude` is `claude-code` rather than `plandex`, which has more letters in common.
    let is_begun = |name: &str| wrong.chars().count() >= BEGUN && name.starts_with(wrong);
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min_by_key(|(distance, name)| (!is_begun(name), *distance))
        .filter(|(distance, name)| {
            *distance <= name.chars().count().max(4) / 2
                || name.starts_with(wrong)
                || wrong.starts_with(**name)
        });
    let all = match known.is_empty() {
        true => "none".to_owned(),
        false => known.join(", "),
    };
    match near {
        Some((_, name)) => format!("hint: did you mean `{name}`? (known: {all})"),
        None => format!("hint: known: {all}"),
    }
}
