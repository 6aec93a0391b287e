//! TOML that people write: values with their places, so that what is wrong is told with file, line and the
//! nearest right one. Knows nothing of what any key means.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::text::escape::short;

/// A file's path and text, for the positions in errors.
pub struct Source<'a> {
    pub path: &'a str,
    pub text: &'a str,
}

impl<'a> Source<'a> {
    /// The whole file as a table. Fails with file and line if it is no TOML.
    pub fn root(&self) -> anyhow::Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text)
            .map_err(|e| self.error(&e.span().unwrap_or(0..0), format!("not TOML: {}", e.message())))
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

    /// An error for a value of another type than expected.
    pub fn wrong_type(&self, key: &str, value: &Spanned<DeValue>, expected: &str) -> anyhow::Error {
        let found = match value.get_ref() {
            DeValue::String(_) => "a string",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "a boolean",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        };
        self.error(&value.span(), format!("`{key}` is {found}, expected {expected}"))
    }

    /// A string. `key` is for errors, here and below.
    pub fn string(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<String> {
        match value.get_ref() {
            DeValue::String(s) => Ok(s.to_string()),
            _ => Err(self.wrong_type(key, value, "a string")),
        }
    }

    /// A list of strings.
    pub fn strings(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<Vec<String>> {
        self.array(key, value)?.iter().map(|v| self.string(key, v)).collect()
    }

    /// True or false.
    pub fn flag(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<bool> {
        match value.get_ref() {
            DeValue::Boolean(flag) => Ok(*flag),
            _ => Err(self.wrong_type(key, value, "true or false")),
        }
    }

    /// A whole number that fits the type.
    pub fn whole<T: TryFrom<i64>>(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<T> {
        match self.value(key, value)? {
            toml::Value::Integer(i) => T::try_from(i)
                .map_err(|_| self.error(&value.span(), format!("`{key} = {i}` is out of range"))),
            _ => Err(self.wrong_type(key, value, "a whole number")),
        }
    }

    /// A number, whole or not.
    pub fn number(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<f64> {
        match self.value(key, value)? {
            toml::Value::Integer(i) => Ok(i as f64),
            toml::Value::Float(f) => Ok(f),
            _ => Err(self.wrong_type(key, value, "a number")),
        }
    }

    /// A table.
    pub fn table<'v>(&self, key: &str, value: &'v Spanned<DeValue<'v>>) -> anyhow::Result<&'v DeTable<'v>> {
        match value.get_ref() {
            DeValue::Table(table) => Ok(table),
            _ => Err(self.wrong_type(key, value, &format!("a section `[{key}]`"))),
        }
    }

    /// A list.
    pub fn array<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'v>>,
    ) -> anyhow::Result<&'v [Spanned<DeValue<'v>>]> {
        match value.get_ref() {
            DeValue::Array(array) => Ok(array.as_ref()),
            _ => Err(self.wrong_type(key, value, "a list")),
        }
    }

    /// A list of tables, each with its place.
    pub fn tables<'v>(
        &self,
        key: &str,
        value: &'v Spanned<DeValue<'v>>,
    ) -> anyhow::Result<Vec<(Range<usize>, &'v DeTable<'v>)>> {
        let expected = format!("tables, each under `[[{key}]]`");
        let DeValue::Array(array) = value.get_ref() else {
            return Err(self.wrong_type(key, value, &expected));
        };
        array
            .iter()
            .map(|v| match v.get_ref() {
                DeValue::Table(table) => Ok((v.span(), table)),
                _ => Err(self.wrong_type(key, v, &expected)),
            })
            .collect()
    }

    /// A plain value: strings, numbers, booleans, and lists and tables of these.
    pub fn value(&self, key: &str, value: &Spanned<DeValue>) -> anyhow::Result<toml::Value> {
        let bad = |expected| self.wrong_type(key, value, expected);
        Ok(match value.get_ref() {
            DeValue::String(s) => toml::Value::String(s.to_string()),
            DeValue::Boolean(b) => toml::Value::Boolean(*b),
            DeValue::Integer(i) => toml::Value::Integer(
                i64::from_str_radix(i.as_str(), i.radix()).map_err(|_| bad("a number of 64 bits"))?,
            ),
            DeValue::Float(f) => toml::Value::Float(
                f.as_str()
                    .parse()
                    .ok()
                    .filter(|f: &f64| f.is_finite())
                    .ok_or_else(|| bad("one that is finite"))?,
            ),
            DeValue::Array(array) => {
                toml::Value::Array(array.iter().map(|v| self.value(key, v)).collect::<anyhow::Result<_>>()?)
            }
            DeValue::Table(table) => toml::Value::Table(
                items(table)
                    .into_iter()
                    .map(|(k, _, v)| Ok((k.to_owned(), self.value(k, v)?)))
                    .collect::<anyhow::Result<_>>()?,
            ),
            DeValue::Datetime(_) => return Err(bad("a string, number, boolean or list")),
        })
    }
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

/// The `hint:` line of a wrong name: the nearest right one, where one is near, and all of them.
pub fn hint(wrong: &str, known: &[&str]) -> String {
    let near = known
        .iter()
        .map(|name| (strsim::damerau_levenshtein(wrong, name), name))
        .min_by_key(|(distance, _)| *distance)
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
