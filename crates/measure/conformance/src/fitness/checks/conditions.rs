//! Conditional writes: of several at the same time, exactly one succeeds, and what it wrote stays.

use futures_util::future::join_all;

use super::super::call::{Answer, CheckCall};
use super::super::problem::{Checked, Problem, require};
use super::super::scene::{Scene, WRITERS, difference, refusal};

/// Results of concurrent writes with one condition.
struct Contest<'a> {
    /// Description of the condition in messages.
    condition: &'a str,
    /// Content of each writer.
    contents: &'a [String],
    /// Answer of each writer; a problem if there was none.
    answers: &'a [Result<Answer, Problem>],
}

impl Contest<'_> {
    /// Checks that at most one writer succeeded and that all others were refused. Returns the winner, or `None` if no
    /// writer succeeded.
    fn winner(&self) -> Result<Option<usize>, Problem> {
        let mut winners = Vec::new();
        for (writer, answer) in self.answers.iter().enumerate() {
            match answer {
                Ok(answer) if answer.is_done() => winners.push(writer),
                Ok(answer) if matches!(answer.status, 409 | 412) => {}
                Ok(answer) => return Err(refusal(self.condition, answer)),
                Err(_) => {}
            }
        }
        require(winners.len() <= 1, || {
            format!(
                "{} of {} concurrent writes with {} succeeded",
                winners.len(),
                self.answers.len(),
                self.condition
            )
        })?;
        Ok(winners.first().copied())
    }

    /// Returns true if an answer has the content of the winner, or there is none.
    fn is_of(&self, winner: Option<usize>, answer: &Answer) -> bool {
        winner.is_none_or(|winner| answer.body == self.contents[winner].as_bytes())
    }

    /// Checks that the object has the content of the winner, or of a writer without an answer.
    fn judge(&self, winner: Option<usize>, found: &Answer) -> Result<(), Problem> {
        let unknown = self.answers.iter().zip(self.contents).filter(|(answer, _)| answer.is_err());
        let Some(winner) = winner else {
            let by_refused = self.answers.iter().zip(self.contents).find(|(answer, content)| {
                answer.is_ok() && found.is_done() && found.body == content.as_bytes()
            });
            return require(by_refused.is_none(), || {
                format!("a write with {} was refused, but its content is stored", self.condition)
            });
        };
        let content = &self.contents[winner];
        require(found.is_done(), || {
            format!(
                "a write with {} was acknowledged, but the next GET was answered {}",
                self.condition,
                found.outcome()
            )
        })?;
        // A writer without an answer can only have written before the winner, which is a second success.
        let second = unknown.map(|(_, content)| content).find(|content| found.body == content.as_bytes());
        require(second.is_none(), || {
            format!("a write with {} was acknowledged, but another one replaced it", self.condition)
        })?;
        require(found.body == content.as_bytes(), || {
            format!(
                "a write with {} was acknowledged, but the next GET returned {}",
                self.condition,
                difference(&found.body, content.as_bytes())
            )
        })
    }
}

/// Returns the contents of the writers of a round.
fn contents(round: u64) -> Vec<String> {
    (0..WRITERS).map(|writer| format!("round {round}, writer {writer}")).collect()
}

/// Describes how often a check of concurrent requests passed.
pub fn passed(rounds: u64, what: &str) -> Checked {
    Ok(format!("{what} in each of {rounds} rounds"))
}

/// Of concurrent PUTs with `If-None-Match: *`, exactly one succeeds.
pub async fn create_once(scene: &Scene<'_>) -> Checked {
    let (condition, mut round) = ("If-None-Match: *", 0);
    while scene.begins(round) {
        let key = scene.key(&format!("create-{round}"));
        let contents = contents(round);
        let call =
            |content: &String| CheckCall::put(&key, content.clone()).header("if-none-match", "*").once();
        let writes = contents.iter().enumerate().map(|(index, content)| scene.send(index, call(content)));
        let answers = join_all(writes).await;
        let contest = Contest { condition, contents: &contents, answers: &answers };
        let mut winner = contest.winner()?;
        let found = scene.get_until(WRITERS, &key, |answer| contest.is_of(winner, answer)).await?;
        contest.judge(winner, &found)?;
        if winner.is_none() && !found.is_done() {
            // A store may refuse all of them as a conflict; then a client tries again.
            let again = scene.send(0, call(&contents[0])).await?;
            require(again.is_done(), || {
                format!(
                    "no write with {condition} created the key; the last was answered {}",
                    again.outcome()
                )
            })?;
            winner = Some(0);
        }
        let late = scene.send(1, CheckCall::put(&key, "late").header("if-none-match", "*").once()).await;
        require(!late.is_ok_and(|late| late.is_done()), || {
            format!("a write with {condition} replaced an object that existed")
        })?;
        if let Some(winner) = winner {
            scene.reads(2, &key, contents[winner].as_bytes(), "after a refused write").await?;
        }
        round += 1;
    }
    passed(round, &format!("exactly one of {WRITERS} concurrent writes succeeded"))
}

/// Of concurrent PUTs with `If-Match`, exactly one succeeds.
pub async fn replace_once(scene: &Scene<'_>) -> Checked {
    let (condition, mut round) = ("If-Match", 0);
    while scene.begins(round) {
        let key = scene.key(&format!("replace-{round}"));
        let first = scene.put(&key, format!("round {round}")).await?.etag().to_string();
        require(!first.is_empty(), || "the answer to a PUT has no ETag".into())?;
        let contents = contents(round);
        let call =
            |content: &String| CheckCall::put(&key, content.clone()).header("if-match", first.clone()).once();
        let writes = contents.iter().enumerate().map(|(index, content)| scene.send(index, call(content)));
        let answers = join_all(writes).await;
        let contest = Contest { condition, contents: &contents, answers: &answers };
        let winner = contest.winner()?;
        let found = scene.get_until(WRITERS, &key, |answer| contest.is_of(winner, answer)).await?;
        contest.judge(winner, &found)?;
        let is_unchanged = found.body == format!("round {round}").as_bytes();
        if winner.is_none() && is_unchanged {
            let again = scene.send(0, call(&contents[0])).await?;
            require(again.is_done(), || {
                format!("no write with {condition} and the current ETag succeeded: {}", again.outcome())
            })?;
        }
        let stale =
            scene.send(1, CheckCall::put(&key, "stale").header("if-match", first.clone()).once()).await;
        require(!stale.is_ok_and(|stale| stale.is_done()), || {
            format!("a write with {condition} and an old ETag succeeded")
        })?;
        round += 1;
    }
    let missing = scene.key("replace-missing");
    let call =
        CheckCall::put(&missing, "x").header("if-match", "\"0123456789abcdef0123456789abcdef\"").once();
    let answer = scene.send(0, call).await?;
    require(!answer.is_done(), || "a write with If-Match to a missing key created it".into())?;
    passed(round, &format!("exactly one of {WRITERS} concurrent writes succeeded"))
}

/// Number of rounds of a check that uploads parts.
const UPLOAD_ROUNDS: u64 = 20;

/// Of two concurrent completions with `If-None-Match: *`, exactly one succeeds, and none if the object exists.
pub async fn create_once_multipart(scene: &Scene<'_>) -> Checked {
    let condition = "If-None-Match: *";
    for round in 0..UPLOAD_ROUNDS {
        scene.client.begin_trace(&scene.root);
        let key = scene.key(&format!("upload-{round}"));
        let contents: Vec<String> = (0..2).map(|writer| format!("round {round}, upload {writer}")).collect();
        let mut completions = Vec::new();
        for content in &contents {
            let upload = scene.begin_upload(&key).await?;
            let part = scene.part(0, &key, &upload, 1, CheckCall::put("", content.clone())).await?;
            completions.push(Scene::completion(&key, &upload, &[part]).header("if-none-match", "*"));
        }
        let third = completions[0].clone();
        let sent = completions.into_iter().enumerate().map(|(index, call)| scene.send(index, call));
        let answers = join_all(sent).await;
        let contest = Contest {
            condition: "CompleteMultipartUpload with If-None-Match: *",
            contents: &contents,
            answers: &answers,
        };
        let winner = contest.winner()?;
        let found = scene.get_until(2, &key, |answer| contest.is_of(winner, answer)).await?;
        contest.judge(winner, &found)?;
        require(winner.is_some() || answers.iter().any(Result::is_err), || {
            format!("no completion with {condition} succeeded")
        })?;
        // The key exists now. The first upload may be completed already; both refusals are right.
        let late = scene.send(0, third).await;
        // An upload without an answer may have been completed.
        let is_same = winner == Some(0) || answers[0].is_err();
        require(!late.is_ok_and(|late| late.is_done()) || is_same, || {
            format!("a completion with {condition} replaced an object that existed")
        })?;
    }
    passed(UPLOAD_ROUNDS, "one of two concurrent completions succeeded")
}

/// After a DELETE, a PUT with `If-None-Match: *` succeeds again, also in a bucket that keeps versions.
pub async fn recreate_after_delete(scene: &Scene<'_>) -> Checked {
    let key = scene.key("lock");
    let (mut round, mut unanswered) = (0, None);
    for attempt in 0..2 * UPLOAD_ROUNDS {
        scene.client.begin_trace(&scene.root);
        let content = format!("holder {attempt}");
        let call = CheckCall::put(&key, content.clone()).header("if-none-match", "*").once();
        match scene.send(0, call).await {
            Ok(answer) => {
                require(answer.is_done(), || {
                    let outcome = answer.outcome();
                    format!("a PUT with If-None-Match: * of a key that was deleted was answered {outcome}")
                })?;
                scene.reads(1, &key, content.as_bytes(), "after its PUT").await?;
                round += 1;
            }
            Err(problem) => unanswered = Some(problem),
        }
        scene.delete(&key).await?;
        if round == UPLOAD_ROUNDS {
            break;
        }
    }
    if let Some(problem) = unanswered.filter(|_| round < UPLOAD_ROUNDS) {
        return Err(problem);
    }
    passed(UPLOAD_ROUNDS, "created again after the delete")
}

/// A DELETE with `If-Match` deletes only the state with that ETag.
pub async fn delete_if_unchanged(scene: &Scene<'_>) -> Checked {
    let key = scene.key("delete");
    let old = scene.put(&key, "first").await?.etag().to_string();
    let new = scene.put(&key, "second").await?.etag().to_string();
    let Some(owned) = scene.space.own(&key) else { return Err(Problem::Inconclusive("foreign key".into())) };
    let stale = scene.send(0, CheckCall::delete(owned).header("if-match", old).once()).await?;
    require(!stale.is_done(), || "a DELETE with If-Match and an old ETag was acknowledged".into())?;
    scene.reads(1, &key, b"second", "after a DELETE with an old ETag").await?;
    let current = CheckCall::delete(owned).header("if-match", new).once();
    let answer = scene.send(0, current).await?;
    require(answer.is_done(), || {
        format!("a DELETE with If-Match and the current ETag was answered {}", answer.outcome())
    })?;
    let gone = scene.get_until(1, &key, |answer| answer.status == 404).await?;
    require(gone.status == 404, || format!("a GET after the DELETE was answered {}", gone.outcome()))?;
    Ok("an old ETag is refused, the current one deletes".into())
}
