//! The answers of forms: the place of an object, a plan in dollars, and changes.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use plimsoll_base::clock::wall_now;
use plimsoll_base::pages::{PageRequest, StatusCode};
use plimsoll_base::text;
use plimsoll_document::live::{Field, Form, Input, Section};
use plimsoll_document::{Document, Table};

use super::Console;
use crate::cli::command::audited;
use crate::cli::out::Output;
use crate::cli::{Exit, plan, whereis};
use crate::config::Config;
use crate::config::what_if::{changes, variables};
use plimsoll_maintenance::plan::page::document;

/// A change that an administrator can request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Brings back what was deleted or replaced.
    Undelete,
    /// Returns moved blobs to their sources.
    Rollback,
}

impl Verb {
    /// Returns the change with this path; `None` for other pages.
    pub fn of(path: &str) -> Option<Verb> {
        match path {
            "/undelete" => Some(Verb::Undelete),
            "/rollback" => Some(Verb::Rollback),
            _ => None,
        }
    }
}

fn line(name: &str, label: &str, example: &str, required: bool) -> Field {
    Field::new(name, label, Input::Text { value: String::new(), example: example.into(), required })
}

fn form(label: &str, action: &str, fields: Vec<Field>, buttons: &[(&str, &str)]) -> Form {
    let button = |(text, name): &(&str, &str)| (text.to_string(), name.to_string());
    Form {
        label: label.into(),
        action: action.into(),
        changes: false,
        is_account: false,
        fields,
        buttons: buttons.iter().map(button).collect(),
    }
}

/// Returns the section that finds objects.
pub fn of_objects() -> Section {
    let fields = vec![
        line("object", "Bucket and key", "photos/2026/a.jpg", true),
        line("version", "Version", "the current one", false),
    ];
    Section {
        id: "where".into(),
        head: "Find an object".into(),
        note: "Where its bytes are, and what the rules will do with it.".into(),
        forms: vec![form("", "/where", fields, &[("Find", "")])],
        ..Section::default()
    }
}

/// Returns the section of changes.
pub fn of_changes() -> Section {
    let account = vec![
        Field::new(
            "access_key",
            "Access key",
            Input::Text { value: String::new(), example: String::new(), required: false },
        ),
        Field::new("secret_key", "Secret key", Input::Secret),
    ];
    let account = Form { is_account: true, ..form("Account of an administrator", "/", account, &[]) };
    let changing = |form: Form| Form { changes: true, ..form };
    let undelete = vec![
        line("bucket", "Bucket", "photos", true),
        line("prefix", "Keys that start with", "all keys", false),
        line("at", "As they were at a time, or before one", "2h, or 2026-01-02T03:04:05Z", true),
        Field::new("force", "Also what lifecycle rules have deleted", Input::Check),
    ];
    let rollback = vec![
        line("bucket", "Bucket", "all buckets", false),
        line("prefix", "Keys that start with", "all keys", false),
    ];
    let buttons = |verb| [("Only count", ""), (verb, "execute")];
    Section {
        id: "change".into(),
        head: "Change".into(),
        note:
            "Changes need an account that may write to all buckets. The log of the gateway has each of them."
                .into(),
        forms: vec![
            account,
            changing(form(
                "Bring back deleted and replaced objects",
                "/undelete",
                undelete,
                &buttons("Bring back"),
            )),
            changing(form(
                "Return moved blobs to their sources",
                "/rollback",
                rollback,
                &buttons("Roll back"),
            )),
        ],
        ..Section::default()
    }
}

/// Returns a section with a document as its result.
fn with_document(section: Section, document: Document) -> Section {
    Section { answer: document.headline(), tables: document.tables, notes: document.notes, ..section }
}

/// Output of a command, collected.
#[derive(Default)]
struct Collected(Mutex<String>);

impl Output for Collected {
    fn say(&self, text: &str) -> Result<(), Exit> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        Ok(())
    }
}

impl Console {
    /// Describes the object that a request names.
    pub fn place_of_object(&self, request: &PageRequest) -> Section {
        let version = Some(request.parameter("version").trim()).filter(|version| !version.is_empty());
        match whereis::find(request.parameter("object"), version, &self.target) {
            Err(Exit { message, .. }) => {
                Section { answer: message.replace("--object", "Bucket and key"), ..of_objects() }
            }
            Ok(found) => {
                let mut table = Table::new("", &["what", "value"]);
                whereis::facts(&found).into_iter().for_each(|(name, fact)| table.row([name, fact]));
                Section { answer: whereis::answer(&found), tables: vec![table], ..of_objects() }
            }
        }
    }

    /// Returns the section of plans; `None` if there are no rules.
    pub fn plan_form(&self) -> Option<Section> {
        let config = self.file.as_deref().map(Config::load)?;
        let section = Section {
            id: "plan".into(),
            head: "Plan".into(),
            note: "What the rules in the file would move now, and what it costs. Nothing is moved. A plan \
                visits all objects."
                .into(),
            ..Section::default()
        };
        let config = match config {
            Ok(config) if config.moves.is_empty() && config.pack.is_none() => return None,
            Ok(config) => config,
            Err(problem) => return Some(Section { answer: problem, ..section }),
        };
        let slider = |variable: crate::config::what_if::Variable| {
            Field::new(
                variable.name,
                variable.label,
                Input::Slider { stops: variable.stops, at: variable.at },
            )
        };
        let fields = variables(&config).into_iter().map(slider).collect();
        Some(Section { forms: vec![form("", "/plan", fields, &[("Compute", "")])], ..section })
    }

    /// Computes the plan that a request describes.
    pub fn plan(&self, request: &PageRequest) -> Section {
        let Some(section) = self.plan_form() else {
            return Section {
                id: "plan".into(),
                head: "Plan".into(),
                answer: "There are no rules of moves and pack files.".into(),
                ..Section::default()
            };
        };
        let Some(_one) = try_lock(&self.planning) else {
            let answer = "Another plan is being computed; repeat this later.".into();
            return Section { answer, ..section };
        };
        let computed = match &self.file {
            Some(file) => self.compute(file, request),
            None => return section,
        };
        match computed {
            Ok(document) => with_document(section, document),
            Err(Exit { message, .. }) => Section { answer: text::message(&message).into_owned(), ..section },
        }
    }

    fn compute(&self, file: &Path, request: &PageRequest) -> Result<Document, Exit> {
        let config = Config::load(file).map_err(Exit::input)?;
        let chosen = changes(&config, |name| request.parameter(name));
        let date = wall_now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let bill = |changes: &[String]| plan::of_store(file, changes, &self.target.store, date);
        let current = bill(&[])?;
        let changed = if chosen.is_empty() { None } else { Some((chosen.join(", "), bill(&chosen)?)) };
        let variant = changed.as_ref().map(|(changes, bill)| (changes.as_str(), bill));
        Ok(document(&self.target.name, &date.to_string(), &current, variant))
    }

    /// Executes the change that an administrator requests, or only counts its objects.
    pub fn change(&self, request: &PageRequest, verb: Verb, access_key: &str) -> (StatusCode, Section) {
        let Some(_one) = try_lock(&self.changing) else {
            let answer = "Another change is being executed; repeat this later.".into();
            return (StatusCode::CONFLICT, Section { answer, ..of_changes() });
        };
        let words = command_words(request, verb, &self.target.place);
        let collected = Collected::default();
        let who = format!("account {access_key} from {}", request.peer);
        let result = audited(&words, Path::new("/"), &who, &self.target, &collected);
        let mut answer = collected.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let status = match result {
            Ok(()) => StatusCode::OK,
            Err(Exit { code, message }) => {
                answer.push_str(&text::message(&message));
                if code == 2 { StatusCode::BAD_REQUEST } else { StatusCode::INTERNAL_SERVER_ERROR }
            }
        };
        (status, Section { answer: answer.trim().replace('\n', "; "), ..of_changes() })
    }
}

/// Takes a lock that no other request has; `None` if one has it. A request that has failed does not keep it.
fn try_lock(lock: &Mutex<()>) -> Option<MutexGuard<'_, ()>> {
    match lock.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// Returns the arguments of a change for the store that `place` selects. Without `execute=1`, it only counts.
fn command_words(request: &PageRequest, verb: Verb, place: &[String]) -> Vec<String> {
    let (name, fields) = match verb {
        Verb::Undelete => ("undelete", &["bucket", "prefix", "at"][..]),
        Verb::Rollback => ("rollback", &["bucket", "prefix"][..]),
    };
    let mut words = vec![name.to_string()];
    for name in fields {
        let value = request.field(name);
        // Spaces belong to keys, but not to names of buckets and times.
        let value = if *name == "prefix" { value } else { value.trim() };
        if !value.is_empty() {
            words.push(format!("--{name}={value}"));
        }
    }
    if verb == Verb::Undelete && request.field("force") == "1" {
        words.push("--force".into());
    }
    if request.field("execute") != "1" {
        words.push("--dry-run".into());
    }
    words.extend(place.iter().cloned());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(form: &[(&str, &str)], verb: Verb) -> String {
        let form = form.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let request = PageRequest {
            method: Default::default(),
            path: "/undelete".into(),
            query: Vec::new(),
            form,
            authorization: None,
            host: String::new(),
            is_foreign: false,
            peer: [127, 0, 0, 1].into(),
            has_tls: false,
            is_private: true,
        };
        command_words(&request, verb, &["--".into(), "f".into()]).join("|")
    }

    #[test]
    fn a_change_only_counts_unless_it_is_told_to_execute() {
        assert_eq!(words(&[], Verb::Rollback), "rollback|--dry-run|--|f");
        assert_eq!(words(&[("execute", "yes")], Verb::Rollback), "rollback|--dry-run|--|f");
        assert_eq!(words(&[("execute", "1")], Verb::Rollback), "rollback|--|f");
    }

    #[test]
    fn values_are_never_options_and_keep_their_spaces_if_they_are_keys() {
        let form = [
            ("bucket", " --force "),
            ("prefix", " tmp/ "),
            ("at", "--dry-run"),
            ("execute", "1"),
            ("force", "2"),
        ];
        assert_eq!(
            words(&form, Verb::Undelete),
            "undelete|--bucket=--force|--prefix= tmp/ |--at=--dry-run|--|f"
        );
    }

    #[test]
    fn a_request_that_panics_does_not_stop_the_next_one() {
        let lock = Mutex::new(());
        std::thread::scope(|scope| {
            let panics = || {
                let _one = try_lock(&lock);
                panic!("a bug");
            };
            scope.spawn(panics).join().unwrap_err();
        });
        let one = try_lock(&lock);
        assert!(one.is_some() && try_lock(&lock).is_none());
    }
}
