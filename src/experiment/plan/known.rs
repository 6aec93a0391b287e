//! The names that an experiment may use, with their parameters: all that the plan knows of strategies and triggers.

use crate::params::Param;
use crate::settings::written;
use crate::text::escape::short;

/// What the plan needs to know of one strategy or trigger.
pub struct Known<'a> {
    pub name: &'a str,
    pub params: &'a [Param],
    /// Whether it works with a model; it does without one, too.
    pub takes_model: bool,
    /// Whether these parameters make a working one, and if so, whether it needs a model.
    pub check: Box<dyn Fn(toml::Table) -> anyhow::Result<bool> + 'a>,
}

/// The names that an experiment may use.
pub struct Catalogue<'a> {
    pub strategies: Vec<Known<'a>>,
    pub triggers: Vec<Known<'a>>,
    /// Names of readers that `formats` in section `data` may hold; none takes any name.
    pub formats: Vec<&'a str>,
}

impl Known<'_> {
    pub(super) fn keys(&self) -> Vec<&str> {
        self.params.iter().map(|p| p.name).collect()
    }

    fn param(&self, key: &str) -> Option<&Param> {
        self.params.iter().find(|p| p.name == key)
    }

    /// Which of the parameters that were set (`keys`) the catalogue refuses, and why: one that is refused alone.
    pub(super) fn blame<'k>(
        &self,
        table: &toml::Table,
        keys: impl IntoIterator<Item = &'k str>,
        error: &anyhow::Error,
    ) -> (Option<&'k str>, String) {
        let alone = |key: &str, value: toml::Value| {
            let error = (self.check)(toml::Table::from_iter([(key.to_owned(), value)])).err()?;
            let error = plain(&error);
            Some(error.strip_suffix(&format!(" in `{key}`")).unwrap_or(&error).to_owned())
        };
        // Defaults are not to blame, or else no parameter is.
        let defaults_work = (self.check)(toml::Table::new()).is_ok();
        let culprit = keys.into_iter().find_map(|key| {
            let error = alone(key, table.get(key)?.clone()).filter(|_| defaults_work)?;
            Some((key, error))
        });
        let Some((key, error)) = culprit else {
            return (None, plain(error));
        };
        let value = &table[key];
        let shown = short(&written(value));
        let names = self.param(key).filter(|_| !value.is_str()).and_then(|p| (p.names)());
        // Another way of writing the same number stands in what serde says.
        let error = error.replace(&value.to_string(), &shown);
        let error = names.map_or(error, |names| format!("expected {names}"));
        // It is named just before.
        let error = error.strip_prefix("parameter ").unwrap_or(&error);
        (Some(key), error.strip_prefix(&format!("`{key}` ")).unwrap_or(error).to_owned())
    }
}

impl Catalogue<'static> {
    /// All strategies and triggers of this version; its readers are not known here.
    pub fn built_in() -> Self {
        Catalogue {
            strategies: crate::strategies::ALL
                .iter()
                .map(|e| Known {
                    name: e.name,
                    params: e.params,
                    takes_model: e.takes_model,
                    check: Box::new(|table| (e.build)(table).map(|strategy| strategy.needs_model())),
                })
                .collect(),
            triggers: crate::triggers::ALL
                .iter()
                .map(|e| Known {
                    name: e.name,
                    params: e.params,
                    takes_model: false,
                    check: Box::new(|table| (e.build)(table).map(|_| false)),
                })
                .collect(),
            formats: Vec::new(),
        }
    }
}

/// An error in one line, but for a hint, and without names of types.
fn plain(error: &anyhow::Error) -> String {
    let text = format!("{error:#}").trim().replace('\n', " ").replace(" hint: ", "\nhint: ");
    let whole = match text.contains("value: integer `") && !text.contains("value: integer `-") {
        true => "a smaller whole number",
        false => "a whole number of 0 or more",
    };
    let types = [("u8", whole), ("u32", whole), ("u64", whole), ("usize", whole), ("f64", "a number")];
    types.iter().fold(text, |text, (name, words)| {
        text.replace(&format!("expected {name}"), &format!("expected {words}"))
    })
}
