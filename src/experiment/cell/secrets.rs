//! What of a log may not stand in the tables of a run, which people share: keys and personal data, found by what the whole log tells.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::context::log::Log;
use crate::strategies::Item;
use crate::text::redact::{Mark, marked, marks};

/// The secrets of a log.
pub(super) struct Secrets {
    /// Of the text of each step, and of its arguments.
    marks: Vec<Vec<Mark>>,
    /// Of these texts those that have a secret first, which numbers it, and the first that tells that it is one: by them it is known
    /// wherever else it stands.
    telling: Vec<usize>,
}

impl Secrets {
    pub(super) fn of(log: &Log) -> Self {
        let texts = texts(log);
        let (found, _) = marks(&texts);
        let (mut met, mut told): (HashSet<&str>, HashSet<&str>) = Default::default();
        let mut telling = Vec::new();
        for (i, of) in found.iter().enumerate() {
            let names = || of.iter().map(|mark| mark.placeholder.as_str());
            let is_first = names().fold(false, |is, name| met.insert(name) || is);
            // Whether a rule finds it here, and not what another text tells.
            let mut tells = false;
            if names().any(|name| !told.contains(name)) {
                let (alone, _) = marks(&texts[i..=i]);
                let is_found = |mark: &&Mark| alone[0].iter().any(|own| own.range == mark.range);
                for mark in of.iter().filter(is_found) {
                    tells |= told.insert(&mark.placeholder);
                }
            }
            telling.extend((is_first || tells).then_some(i));
        }
        Secrets { marks: found, telling }
    }

    /// The texts of items, without secrets.
    pub(super) fn hidden(&self, log: &Log, items: &[&Item]) -> Vec<Arc<str>> {
        // What was cut is cut behind a placeholder, and not before it.
        let placed = |item: &Item| {
            let (step, range) = item.source.as_ref()?;
            let (range, marks) = (range.start as usize..range.end as usize, &self.marks[2 * *step as usize]);
            let text = log.trajectory.steps[*step as usize].text.get(range.clone())?;
            let n = item.text.chars().count();
            text.starts_with(&*item.text).then(|| {
                let whole = marked(&log.trajectory.steps[*step as usize].text, range, marks);
                if text.len() == item.text.len() { whole } else { whole.chars().take(n).collect() }
            })
        };
        let mut elsewhere: Vec<&str> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        let told: Vec<Result<String, usize>> = items
            .iter()
            .map(|item| {
                placed(item).ok_or_else(|| {
                    *known.entry(&item.text).or_insert_with(|| {
                        elsewhere.push(&item.text);
                        elsewhere.len() - 1
                    })
                })
            })
            .collect();
        let elsewhere: Vec<Arc<str>> = self.hide(log, &elsewhere).into_iter().map(Arc::from).collect();
        let of = |told: Result<String, usize>| told.map_or_else(|at| elsewhere[at].clone(), Arc::from);
        told.into_iter().map(of).collect()
    }

    /// Texts that stand anywhere, without the secrets of the log.
    pub(super) fn hide(&self, log: &Log, of: &[&str]) -> Vec<String> {
        if of.is_empty() {
            return Vec::new();
        }
        let all = texts(log);
        let telling: Vec<&str> = self.telling.iter().map(|&i| all[i]).collect();
        let found = marks(&[&telling[..], of].concat()).0.split_off(telling.len());
        of.iter().zip(found).map(|(text, marks)| marked(text, 0..text.len(), &marks)).collect()
    }
}

fn texts(log: &Log) -> Vec<&str> {
    let both = log.trajectory.steps.iter().map(|s| [&*s.text, s.arguments.as_deref().unwrap_or_default()]);
    both.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::Fate;

    /// A key is known by the step that names it, also where it stands alone, in part, or in words of a model.
    #[test]
    fn items_have_no_secrets_of_their_log() {
        let key = "kD83nfQz71xLw92";
        let log = Log::script(&format!(
            "user: Write to nina.p@gmail.com and begin.\nagent: ok\naction: cat .env\nobservation: now {key} is there\n\
             agent: I see\naction: cat b\nobservation: the password is {key}, do not tell",
        ));
        let at = log.trajectory.steps.iter().position(|step| step.text.starts_with("now ")).unwrap() as u32;
        let whole = 0..log.trajectory.steps[at as usize].text.len() as u32;
        let item = |text: &str, source: Option<(u32, std::ops::Range<u32>)>| Item {
            text: text.into(),
            kind: "fact",
            source,
            score: None,
            fate: Fate::Kept,
            of: None,
        };
        let items = [
            item(&log.trajectory.steps[at as usize].text, Some((at, whole.clone()))),
            // Cut within the key.
            item(&format!("now {}", &key[..6]), Some((at, whole))),
            item(&format!("A model says {key}."), None),
            item("ask nina.p@gmail.com", None),
            item("plain", None),
        ];
        let secrets = Secrets::of(&log);
        let told = secrets.hidden(&log, &items.iter().collect::<Vec<_>>());
        let told: Vec<&str> = told.iter().map(|text| &**text).collect();
        assert!(told.iter().all(|text| !text.contains(&key[..4]) && !text.contains("nina.p@")), "{told:?}");
        assert!(told[0].starts_with("now <") && told[0].ends_with("> is there"), "{told:?}");
        assert_eq!(told[1], told[0].chars().take(10).collect::<String>());
        assert!(
            told[2].starts_with("A model says <") && told[2][13..].starts_with(&told[0][4..9]),
            "{told:?}"
        );
        assert_eq!((told[3], told[4]), ("ask <email-1>", "plain"));
    }
}
