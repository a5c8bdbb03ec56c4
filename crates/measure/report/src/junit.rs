//! JUnit XML for CI systems: one suite per run, one case per objective and place. A missed objective is a
//! failure; one that cannot be decided is an error.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use plimsoll_judge::summary::objective_result::ObjectiveResult;

/// One test case: an objective checked in one place.
pub struct Case {
    /// Objective as the user wrote it.
    pub name: String,
    /// Store, phase and operation that were checked.
    pub place: String,
    /// Result of the check.
    pub outcome: ObjectiveResult,
    /// Description of the measured value, for people.
    pub detail: String,
}

/// Returns the XML document for these suites, each with its name and cases.
pub fn document(suites: &[(String, Vec<Case>)]) -> String {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    // Writing to memory does not fail.
    let _ = writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
    let count = |cases: &[Case], outcome| cases.iter().filter(|c| c.outcome == outcome).count().to_string();
    let _ = writer.create_element("testsuites").write_inner_content(|writer| {
        for (id, cases) in suites {
            let (failures, errors) =
                (count(cases, ObjectiveResult::Fail), count(cases, ObjectiveResult::Inconclusive));
            let element = writer.create_element("testsuite").with_attributes([
                ("name", id.as_str()),
                ("tests", cases.len().to_string().as_str()),
                ("failures", failures.as_str()),
                ("errors", errors.as_str()),
            ]);
            element.write_inner_content(|writer| cases.iter().try_for_each(|case| one(writer, case)))?;
        }
        Ok(())
    });
    let mut text = String::from_utf8(writer.into_inner()).unwrap_or_default();
    text.push('\n');
    text
}

fn one(writer: &mut Writer<Vec<u8>>, case: &Case) -> std::io::Result<()> {
    let element = writer
        .create_element("testcase")
        .with_attributes([("name", case.name.as_str()), ("classname", &case.place)]);
    let inner = match case.outcome {
        ObjectiveResult::Pass => "system-out",
        ObjectiveResult::Fail => "failure",
        ObjectiveResult::Inconclusive => "error",
    };
    element
        .write_inner_content(|writer| {
            let child = writer.create_element(inner);
            let child = match case.outcome {
                ObjectiveResult::Pass => child,
                _ => child.with_attribute(("message", case.outcome.describe())),
            };
            child.write_text_content(BytesText::new(&case.detail)).map(|_| ())
        })
        .map(|_| ())
}
