//! What the user typed to questions of the model that have a list to choose from: what was chosen is the model's.

use std::ops::Range;

use serde::Deserialize;

/// The arguments of such a call.
#[derive(Deserialize)]
struct Asked {
    questions: Vec<Question>,
}

#[derive(Deserialize)]
struct Question {
    question: String,
    #[serde(default)]
    options: Vec<Choice>,
    #[serde(default, rename = "multiSelect", alias = "multiple")]
    is_of_many: bool,
}

#[derive(Deserialize)]
struct Choice {
    label: String,
}

/// What ends the answers as Claude Code and opencode tell them, and what the first of them puts behind an answer.
const END: &str = ". You can now continue";
const PREVIEW: &str = " selected preview:";
const NOTES: &str = " user notes: ";
/// So opencode tells that there was none.
const NONE: &str = "Unanswered";

/// Where in the result of a call with these arguments stands what the user typed; none if it is no answer to questions.
pub(super) fn typed(arguments: &str, text: &str) -> Option<Vec<Range<usize>>> {
    // Most calls are not asked of it.
    arguments.contains("\"questions\"").then_some(())?;
    let Asked { questions } = serde_json::from_str(arguments).ok()?;
    let given = |of: &Question| format!("\"{}\"=\"", of.question);
    // Questions that the user wanted to talk about are quoted in another way.
    let quoted = |of: &Question| format!("- \"{}\"\n  ", of.question);
    let behind = |mark: &str| text.find(mark).map(|at| at + mark.len());
    let is_answer = questions.iter().any(|of| text.contains(&given(of)) || text.contains(&quoted(of)));
    is_answer.then_some(())?;
    let mut found = Vec::new();
    for of in &questions {
        if let Some(from) = behind(&given(of)) {
            let next = questions.iter().filter_map(|next| text[from..].find(&format!(", {}", given(next))));
            let end = next.min().or_else(|| text[from..].rfind(END));
            let all = &text[from..end.map_or(text.len(), |end| from + end)];
            let end = [PREVIEW, NOTES].iter().filter_map(|mark| all.find(&format!("\"{mark}"))).min();
            let end = end.unwrap_or(all.strip_suffix('"').map_or(all.len(), str::len));
            found.extend(own(of, from..from + end, text));
            found.extend(all[end..].find(NOTES).map(|at| from + end + at + NOTES.len()..from + all.len()));
        } else if let Some(from) = behind(&(quoted(of) + "Answer: ")) {
            let end = text[from..].find("\n- \"").map_or(text.len(), |end| from + end);
            found.extend(own(of, from..end, text));
        }
    }
    Some(found)
}

/// The part of an answer that none of the options says: of a question with several, what stands behind the chosen ones.
fn own(of: &Question, answer: Range<usize>, text: &str) -> Option<Range<usize>> {
    let rest = |from: usize| text[from..answer.end].trim();
    let is_label = |said: &str| said == NONE || of.options.iter().any(|option| option.label.trim() == said);
    let mut from = answer.start;
    while of.is_of_many && !is_label(rest(from)) {
        let chosen = of.options.iter().map(|option| option.label.len() + ", ".len());
        let is_next = |n: &usize| {
            text.get(from..from + n).and_then(|said| said.strip_suffix(", ")).is_some_and(is_label)
                && from + n < answer.end
        };
        let Some(n) = chosen.filter(is_next).max() else { break };
        from += n;
    }
    (!rest(from).is_empty() && !is_label(rest(from))).then_some(from..answer.end)
}

#[cfg(test)]
mod tests {
    use super::typed;

    const ASKED: &str = r#"{"questions":[{"question":"Which port?","options":[{"label":"80"},{"label":"8080, behind a proxy"}],"multiSelect":false},
        {"question":"What else?","options":[{"label":"Tests, too"},{"label":"Docs"}],"multiSelect":true}]}"#;

    fn of(text: &str) -> Option<Vec<&str>> {
        let all = typed(ASKED, text)?;
        Some(all.into_iter().map(|range| &text[range]).collect())
    }

    fn told(answers: &str) -> Vec<String> {
        let text = format!(
            "User has answered your questions: {answers}. You can now continue with the user's answers in mind."
        );
        of(&text).unwrap().into_iter().map(str::to_owned).collect()
    }

    #[test]
    fn what_is_on_no_list_was_typed() {
        assert_eq!(told(r#""Which port?"="8080, behind a proxy", "What else?"="Tests, too, Docs""#).len(), 0);
        // Who answers in words may begin with one of the labels.
        let own = "80, but only until \"Friday\"";
        assert_eq!(told(&format!(r#""Which port?"="{own}", "What else?"="Docs""#)), [own]);
        assert_eq!(
            told(r#""Which port?"="80", "What else?"="Tests, too, and no cookies""#),
            ["and no cookies"]
        );
        let both = told(r#""Which port?"="None. You can now continue", "What else?"="Unanswered""#);
        assert_eq!(both, ["None. You can now continue"]);
        let noted = "\"Which port?\"=\"80\" selected preview:\nlisten 80 user notes: only for the test, \"What else?\"=\"Docs";
        assert_eq!(told(&format!("{noted}\"")), ["only for the test"], "a preview is the model's");
        assert_eq!(told("\"Which port?\"=\"80\" user notes: only for the test"), ["only for the test"]);
    }

    #[test]
    fn an_answer_to_questions_that_were_not_all_answered_is_read() {
        let refused = "The user wants to clarify these questions.\n    Questions asked:\n- \"Which port?\"\n  Answer: Not before we talked\n- \"What else?\"\n  (No answer provided)";
        assert_eq!(of(refused), Some(vec!["Not before we talked"]));
        assert_eq!(of(&refused.replace("Not before we talked", "80")), Some(vec![]));
        assert_eq!(of("Which port? 90"), None);
        assert_eq!(typed("{\"path\":\"a\"}", "\"Which port?\"=\"90\""), None);
    }
}
