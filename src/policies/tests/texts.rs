//! The words of what a policy put there without a model, by length and hash: notes of its own, and results that it rewrote. Policies
//! that summarise are left out: their words are scripted.

use sha2::{Digest as _, Sha256};

use super::*;

/// Length in characters, and the first digits of the SHA-256.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Print(usize, String);

impl Print {
    fn of(text: &str) -> Print {
        let digest = Sha256::digest(text.as_bytes());
        Print(text.chars().count(), digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect())
    }
}

/// The texts of one prompt: by the place of a result, or of nothing that was given.
pub(super) type Texts = BTreeMap<Option<u32>, Vec<Print>>;

/// Of a prompt here.
pub(super) fn of_blocks(log: &Log, blocks: &[Block]) -> Texts {
    let mut texts = Texts::new();
    for block in blocks {
        let place = match &block.content {
            Content::Placeholder { step, .. } if log.kind(*step) == Kind::Observation => {
                Some(log.trajectory.steps[*step as usize].message)
            }
            Content::Generated { .. } => None,
            _ => continue,
        };
        texts.entry(place).or_default().push(Print::of(&block.text(log)));
    }
    texts
}

/// Of each prompt that a library changed, by the place of the message that was asked for.
fn of_recording(line: &Json) -> BTreeMap<u32, Texts> {
    let made = line["made"].as_array().unwrap();
    let mut all = BTreeMap::new();
    for fired in line["fired"].as_array().unwrap() {
        let mut texts = Texts::new();
        for item in fired["prompt"].as_array().unwrap() {
            let run = item.as_array().map_or(std::slice::from_ref(item), Vec::as_slice);
            let (first, last) = (run[0].as_i64().unwrap(), run[run.len() - 1].as_i64().unwrap());
            // Of what was made a run goes downwards: -1, -2, -3.
            for made in
                (last..=first).rev().filter(|&n| n < 0).map(|n| &made[usize::try_from(-1 - n).unwrap()])
            {
                let place = made.get("m").and_then(Json::as_u64).map(|place| place as u32);
                if place.is_none() || made["role"] == "tool" {
                    let print = Print(
                        made["len"].as_u64().unwrap() as usize,
                        made["sha"].as_str().unwrap().to_owned(),
                    );
                    texts.entry(place).or_default().push(print);
                }
            }
        }
        all.insert(fired["at"].as_u64().unwrap() as u32, texts);
    }
    all
}

/// How many texts stand in a place both here and there, how many of them are the same, and an example of what is not.
#[derive(Clone, Debug, Default)]
pub(super) struct Compared {
    pub(super) n: u64,
    pub(super) same: u64,
    pub(super) example: Option<(Print, Print)>,
}

/// The texts of prompts that are equal by their places.
pub(super) fn compare(here: &BTreeMap<u32, Texts>, line: &Json, compared: &mut Compared) {
    for (at, there) in of_recording(line) {
        let Some(here) = here.get(&at) else { continue };
        for (place, theirs) in &there {
            let Some(ours) = here.get(place).filter(|ours| ours.len() == theirs.len()) else { continue };
            for (our, their) in ours.iter().zip(theirs) {
                compared.n += 1;
                compared.same += u64::from(our == their);
                if our != their && compared.example.is_none() {
                    compared.example = Some((our.clone(), their.clone()));
                }
            }
        }
    }
}
