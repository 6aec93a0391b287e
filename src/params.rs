//! What a strategy or trigger can be told.
//!
//! A parameter is declared once, in [`params!`]: name, type, default, limits and what it means. The plan, errors,
//! `trajpress list` and docs/catalogue.md read that.

use serde::de::DeserializeOwned;
use toml::{Table, Value};

use crate::files::reach;

/// One parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    /// As TOML. Words in brackets where it depends: then the parameter is absent unless it is set.
    pub default: &'static str,
    pub(crate) doc: &'static str,
    /// The least that it may be, and the most, as far as there are such.
    pub(crate) limits: &'static [f64],
    /// See [`names`].
    pub(crate) names: fn() -> Option<String>,
}

impl Param {
    /// Whether it is a number of tokens: what it is begins with its unit.
    pub fn is_in_tokens(&self) -> bool {
        self.doc.trim_start().starts_with("Tokens ")
    }

    /// One of no known type, for tests.
    #[cfg(test)]
    pub(crate) const fn any(name: &'static str, default: &'static str) -> Self {
        Param { name, default, doc: "", limits: &[], names: || None }
    }

    /// What it means.
    pub fn about(&self) -> &'static str {
        self.doc.trim()
    }

    /// Its default, if it has one.
    pub fn value(&self) -> Option<Value> {
        format!("value = {}", self.default).parse::<Table>().ok()?.remove("value")
    }

    /// What it may be, where not all of its type will do.
    pub fn allowed(&self) -> Option<String> {
        match self.limits {
            [least] => Some(format!("at least {least}")),
            [least, most] => Some(format!("between {least} and {most}")),
            _ => (self.names)(),
        }
    }

    fn fits(&self, value: &Value) -> bool {
        let number = value.as_float().or(value.as_integer().map(|i| i as f64));
        let most = *self.limits.get(1).unwrap_or(&f64::INFINITY);
        number.is_none_or(|n| self.limits.first().is_none_or(|least| (*least..=most).contains(&n)))
    }
}

/// The names that a value of this type may be, where it is one of some: what serde says of another.
pub(crate) fn names<T: DeserializeOwned>() -> Option<String> {
    let error = T::deserialize(Value::String(String::new())).err()?.to_string();
    let (_, names) = error.split_once("unknown variant ``, expected ")?;
    Some(names.trim().to_owned())
}

/// What is set, and the defaults of the rest.
pub(crate) fn complete(params: &[Param], mut set: Table) -> Table {
    for param in params {
        let value = match (set.remove(param.name), param.value()) {
            // One meaning, one form: `1` for a fraction is `1.0`.
            (Some(Value::Integer(i)), Some(Value::Float(_))) => Some(Value::Float(i as f64)),
            (set, default) => set.or(default),
        };
        set.extend(value.map(|value| (param.name.to_owned(), value)));
    }
    set
}

/// Parameters as their struct; those that are not set have their defaults.
pub(crate) fn read<T: DeserializeOwned>(params: &[Param], set: Table) -> anyhow::Result<T> {
    let table = complete(params, set);
    let read = table.clone().try_into()?;
    for param in params {
        let fits = table.get(param.name).is_none_or(|value| param.fits(value));
        anyhow::ensure!(fits, "parameter `{}` must be {}", param.name, param.allowed().unwrap_or_default());
    }
    Ok(read)
}

/// Hex digits of a file's hash that must be given at least.
const HASH_DIGITS: usize = 8;

/// Path and text of a file of one's own, named `PATH#HASH`: so its hash is part of what a variant is known by. `else_name` says in
/// errors what could be named in its place.
///
/// # Errors
/// It cannot be read, or has another hash.
pub(crate) fn own_file<'a>(what: &str, name: &'a str, else_name: &str) -> anyhow::Result<(&'a str, String)> {
    let (path, hash) = name.rsplit_once('#').unwrap_or((name, ""));
    let text = reach::text(std::path::Path::new(path)).map_err(|error| {
        anyhow::anyhow!(
            "{what} `{path}`: {error}\nhint: {else_name} a file as \"PATH#HASH\", from the folder that the command runs in"
        )
    })?;
    let own = blake3::hash(text.as_bytes()).to_hex();
    anyhow::ensure!(
        hash.len() >= HASH_DIGITS && own.starts_with(hash),
        "{what} `{path}`: the file must be named with its hash, so that results are known by what made them\nhint: \
         write \"{path}#{}\"",
        &own[..2 * HASH_DIGITS]
    );
    Ok((path, text))
}

/// The parameters of two in one list. Those of both stand last in each, and once in the list.
pub(crate) const fn joined<const N: usize>(a: &[Param], b: &[Param]) -> [Param; N] {
    let (mut all, mut i, own) = ([a[0]; N], 0, N - b.len());
    while i < N {
        all[i] = if i < own { a[i] } else { b[i - own] };
        i += 1;
    }
    all
}

/// Declares the struct of some parameters; its `of` reads them from TOML. Limits stand behind the default, as in
/// `polling: u32 = 1 (at least 1)` and `share: f64 = 0.1 (from 0 to 1)`.
macro_rules! params {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $(
        $(#[doc = $doc:literal])+
        $field_vis:vis $field:ident: $type:ty = $default:tt
        $((at least $min:tt))? $((from $low:tt to $high:tt))?
    ),* $(,)? }) => {
        $(#[$meta])*
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        $vis struct $name { $($(#[doc = $doc])+ $field_vis $field: $type),* }

        impl $name {
            pub(crate) const PARAMS: &[$crate::params::Param] = &[$($crate::params::Param {
                name: stringify!($field),
                default: stringify!($default),
                doc: concat!($($doc),+),
                limits: &[$($min as f64)? $($low as f64, $high as f64)?],
                names: $crate::params::names::<$type>,
            }),*];

            /// Those that are set, and the defaults of the rest.
            pub(crate) fn of(set: toml::Table) -> anyhow::Result<Self> {
                $crate::params::read(Self::PARAMS, set)
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::of(toml::Table::new()).expect("defaults are right")
            }
        }
    };
}
pub(crate) use params;
