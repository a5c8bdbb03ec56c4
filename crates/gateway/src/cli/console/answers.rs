//! The answers of forms: the place of an object, a plan in dollars, and changes.

use std::path::Path;
use std::sync::{Mutex, PoisonError};

use plimsoll_base::clock::wall_now;
use plimsoll_base::pages::PageRequest;
use plimsoll_document::live::{Field, Form, Input, Section};
use plimsoll_document::{Document, Table};

use super::Console;
use crate::cli::command::audited;
use crate::cli::out::Output;
use crate::cli::{Exit, plan, whereis};
use crate::config::Config;
use crate::plan::page::document;
use crate::plan::what_if::{changes, variables};

fn text(name: &str, label: &str, example: &str, required: bool) -> Field {
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
        text("object", "Bucket and key", "photos/2026/a.jpg", true),
        text("version", "Version", "the current one", false),
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
    let account = Form { is_account: true, ..form("Account of an administrator", "/change", account, &[]) };
    let changing = |form: Form| Form { changes: true, ..form };
    let undelete = vec![
        text("bucket", "Bucket", "photos", true),
        text("prefix", "Keys that start with", "all keys", false),
        text("at", "As they were at a time, or before one", "2h, or 2026-01-02T03:04:05Z", true),
        Field::new("force", "Also what lifecycle rules have deleted", Input::Check),
    ];
    let rollback = vec![
        text("bucket", "Bucket", "all buckets", false),
        text("prefix", "Keys that start with", "all keys", false),
    ];
    let buttons = |verb| [("Only count", "dry_run"), (verb, "")];
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
                "/change",
                undelete,
                &buttons("Bring back"),
            )),
            changing(form("Return moved blobs to their sources", "/change", rollback, &buttons("Roll back"))),
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
            note: "What the rules would move now, and what it costs. Nothing is moved. A plan visits all objects.".into(),
            ..Section::default()
        };
        let config = match config {
            Ok(config) if config.moves.is_empty() && config.pack.is_none() => return None,
            Ok(config) => config,
            Err(problem) => return Some(Section { answer: problem, ..section }),
        };
        let slider = |variable: crate::plan::what_if::Variable| {
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
        let Ok(_one) = self.planning.try_lock() else {
            let answer = "Another plan is being computed; repeat this later.".into();
            return Section { answer, ..section };
        };
        let computed = match &self.file {
            Some(file) => self.compute(file, request),
            None => return section,
        };
        match computed {
            Ok(document) => with_document(section, document),
            Err(Exit { message, .. }) => Section { answer: message, ..section },
        }
    }

    fn compute(&self, file: &Path, request: &PageRequest) -> Result<Document, Exit> {
        let config = Config::load(file).map_err(Exit::input)?;
        let chosen = changes(&config, |name| request.parameter(name).parse().ok());
        let date = wall_now().to_zoned(jiff::tz::TimeZone::UTC).date();
        let bill = |changes: &[String]| plan::of_store(file, changes, &self.target.store, date);
        let current = bill(&[])?;
        let changed = if chosen.is_empty() { None } else { Some((chosen.join(", "), bill(&chosen)?)) };
        let variant = changed.as_ref().map(|(changes, bill)| (changes.as_str(), bill));
        Ok(document(&self.target.name, &date.to_string(), &current, variant))
    }

    /// Executes the change that an administrator requests.
    pub fn change(&self, request: &PageRequest, access_key: &str) -> Section {
        let option = |name: &str, value: &str| format!("--{name}={value}");
        // Only the form of `undelete` has a time.
        let is_undelete = request.form.iter().any(|(name, _)| name == "at");
        let mut words = vec![if is_undelete { "undelete" } else { "rollback" }.to_string()];
        for name in ["bucket", "prefix", "at"] {
            let value = request.field(name).trim();
            if !value.is_empty() {
                words.push(option(name, value));
            }
        }
        let flags = [("force", "--force"), ("dry_run", "--dry-run")];
        words.extend(
            flags.iter().filter(|(name, _)| request.field(name) == "1").map(|(_, flag)| flag.to_string()),
        );
        words.extend(self.target.place.iter().cloned());
        let collected = Collected::default();
        let who = format!("account {access_key} from {}", request.peer);
        let result = audited(&words, Path::new("/"), &who, &self.target, &collected);
        let mut answer = collected.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Err(Exit { message, .. }) = result {
            answer.push_str(&message);
        }
        Section { answer: answer.trim().replace('\n', "; "), ..of_changes() }
    }
}
