//! Placeholders in the place of secrets and personal data, in all texts of a run.

use crate::text::redact::{Tally, redact};
use crate::trajectory::Trajectory;

/// Redacts all texts of a run. Its id is another then: that of what is left.
pub(super) fn redact_run(run: &mut Trajectory) -> Tally {
    let mut texts: Vec<&mut String> = Vec::new();
    let taken = run.steps.iter_mut().map(|step| step.arguments.take().map(String::from));
    let mut arguments: Vec<Option<String>> = taken.collect();
    for (step, arguments) in run.steps.iter_mut().zip(&mut arguments) {
        texts.push(&mut step.text);
        texts.extend(arguments);
        texts.extend(step.edit.as_mut().map(|edit| &mut edit.text));
    }
    let about =
        [&mut run.goal, &mut run.annotations, &mut run.task_id, &mut run.repository, &mut run.outcome];
    texts.extend(about.into_iter().flatten());
    texts.extend(&mut run.constraints);
    let tally = redact(&mut texts);
    for (step, arguments) in run.steps.iter_mut().zip(arguments) {
        step.arguments = arguments.map(Into::into);
    }
    run.id = run.content_id();
    tally
}
