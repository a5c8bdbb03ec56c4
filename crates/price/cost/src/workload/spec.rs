//! Specification of a month's workload: flags, or a file with the same names.

use serde::{Deserialize, Deserializer};

/// Workload of one month. Amounts of data need a unit: `10PB` is 10^16 bytes, `10PiB` is 10 x 2^50 bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
#[serde(deny_unknown_fields, default)]
pub struct Workload {
    /// Data stored, averaged over the month: 10PB, 500 GiB
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub storage: Option<String>,
    /// Daily peaks of the data stored, averaged over the month, for providers that bill by peak [default:
    /// --storage]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub storage_peak: Option<String>,
    /// Data sent to the internet: 10PB, or a percentage of the data read: 30% [default: all reads at providers
    /// without compute, none at others]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub egress: Option<String>,
    /// Number of objects written: 12M
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub put: Option<String>,
    /// Number of objects read
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub get: Option<String>,
    /// Number of metadata requests
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub head: Option<String>,
    /// Number of listing pages
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub list: Option<String>,
    /// Number of objects deleted
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub delete: Option<String>,
    /// Number of objects copied within the store
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub copy: Option<String>,
    /// Mean size of an object [default: 1MiB]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub object_size: Option<String>,
    /// Write larger objects in parts of this size; each part is one request
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub part_size: Option<String>,
    /// Data written [default: --put times --object-size]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub written: Option<String>,
    /// Data read [default: --get times --object-size, at least --egress]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub read: Option<String>,
    /// Retention of objects: 7d or 12h [default: longer than any minimum duration if --storage is given, else objects
    /// are deleted immediately]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub keep: Option<String>,
    /// Share of the data that is not read for a time, for classes whose prices depend on it: 30d=70%,90d=50% [default:
    /// all data is read within 30 days]
    #[cfg_attr(feature = "clap", arg(long, value_name = "DAYS=SHARE", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub unread: Option<String>,
    /// Data copied to another zone of the region
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub cross_zone: Option<String>,
    /// Data copied to another region of the provider
    #[cfg_attr(feature = "clap", arg(long, value_name = "DATA", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub cross_region: Option<String>,
    /// Hours of machines in the store's region, if its provider rents them: c7g.4xlarge=730h; may be repeated
    #[cfg_attr(feature = "clap", arg(long, value_name = "TYPE=HOURS"))]
    #[serde(deserialize_with = "words")]
    pub instance: Vec<String>,
    /// Number of invocations of functions in the store's region: Lambda for AWS, Workers for Cloudflare
    #[cfg_attr(feature = "clap", arg(long, value_name = "N", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub invocations: Option<String>,
    /// CPU time of an invocation: 5ms [default: 1ms]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub cpu_time: Option<String>,
    /// Duration of an invocation, which includes waiting for the store: 60ms [default: --cpu-time]
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub run_time: Option<String>,
    /// Memory of a function [default: 128MiB]
    #[cfg_attr(feature = "clap", arg(long, value_name = "SIZE", allow_hyphen_values = true))]
    #[serde(deserialize_with = "word")]
    pub memory: Option<String>,
    /// Assume that the free allowances of the month are used up
    #[cfg_attr(feature = "clap", arg(long))]
    pub without_allowances: bool,
}

/// A value in a workload file: text or an integer.
#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Whole(i64),
}

impl From<Word> for String {
    fn from(word: Word) -> String {
        match word {
            Word::Text(text) => text,
            Word::Whole(number) => number.to_string(),
        }
    }
}

fn word<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let word = Word::deserialize(deserializer);
    word.map(|w| Some(w.into()))
        .map_err(|_| serde::de::Error::custom("put the value in quotes, such as \"50M\" or \"10TB\""))
}

fn words<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Words {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Words::deserialize(deserializer)? {
        Words::One(one) => vec![one],
        Words::Many(many) => many,
    })
}

impl Workload {
    /// Describes the workload in words: `storage 10TB, get 50M`.
    pub fn in_words(&self) -> String {
        let fields = [
            ("storage", &self.storage),
            ("storage peak", &self.storage_peak),
            ("egress", &self.egress),
            ("put", &self.put),
            ("get", &self.get),
            ("head", &self.head),
            ("list", &self.list),
            ("delete", &self.delete),
            ("copy", &self.copy),
            ("object size", &self.object_size),
            ("part size", &self.part_size),
            ("written", &self.written),
            ("read", &self.read),
            ("keep", &self.keep),
            ("unread", &self.unread),
            ("cross zone", &self.cross_zone),
            ("cross region", &self.cross_region),
            ("invocations", &self.invocations),
            ("CPU time", &self.cpu_time),
            ("run time", &self.run_time),
            ("memory", &self.memory),
        ];
        let words = fields.into_iter().filter_map(|(name, text)| Some(format!("{name} {}", text.as_ref()?)));
        words
            .chain(self.instance.iter().map(|text| format!("instance {text}")))
            .collect::<Vec<_>>()
            .join(", ")
    }

    /// Returns this workload, with unset fields taken from another one.
    ///
    /// Bytes follow from counts and sizes. If this workload sets a count or a size, the bytes of the other one
    /// no longer apply.
    pub fn over(self, mut below: Workload) -> Workload {
        if self.put.is_some() || self.object_size.is_some() {
            below.written = None;
        }
        if self.get.is_some() || self.object_size.is_some() {
            below.read = None;
        }
        Workload {
            storage: self.storage.or(below.storage),
            storage_peak: self.storage_peak.or(below.storage_peak),
            egress: self.egress.or(below.egress),
            put: self.put.or(below.put),
            get: self.get.or(below.get),
            head: self.head.or(below.head),
            list: self.list.or(below.list),
            delete: self.delete.or(below.delete),
            copy: self.copy.or(below.copy),
            object_size: self.object_size.or(below.object_size),
            part_size: self.part_size.or(below.part_size),
            written: self.written.or(below.written),
            read: self.read.or(below.read),
            keep: self.keep.or(below.keep),
            unread: self.unread.or(below.unread),
            cross_zone: self.cross_zone.or(below.cross_zone),
            cross_region: self.cross_region.or(below.cross_region),
            instance: if self.instance.is_empty() { below.instance } else { self.instance },
            invocations: self.invocations.or(below.invocations),
            cpu_time: self.cpu_time.or(below.cpu_time),
            run_time: self.run_time.or(below.run_time),
            memory: self.memory.or(below.memory),
            without_allowances: self.without_allowances || below.without_allowances,
        }
    }
}

/// Parses the text of a workload file.
///
/// # Errors
/// The line number, from 1, and the problem.
pub fn parse(text: &str) -> Result<Workload, (usize, String)> {
    toml::from_str(text).map_err(|e| {
        let offset = e.span().map_or(0, |s| s.start).min(text.len());
        (text[..offset].matches('\n').count() + 1, e.message().trim().replace('\n', " "))
    })
}
