//! The metered command: its environment, start and end.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, getpgrp, kill_process};
use rustix::termios::tcgetpgrp;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use plimsoll_s3::credentials::Credentials;

/// Endpoint as clients need to know it.
#[derive(Debug, Clone)]
pub struct Address {
    /// Address and port: `127.0.0.1:39211`.
    pub host: String,
    /// Bucket for the requests.
    pub bucket: String,
    /// Region for signatures.
    pub region: String,
    /// Access key and secret, valid while the endpoint exists.
    pub credentials: Credentials,
}

/// Variables that would lead a client to another account or store.
const REMOVED: [&str; 9] = [
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
    "AWS_USE_DUALSTACK_ENDPOINT",
    "AWS_USE_FIPS_ENDPOINT",
    // The endpoint has no TLS, and rclone refuses the variable.
    "AWS_CA_BUNDLE",
    "RESTIC_REPOSITORY_FILE",
];

impl Address {
    /// Returns the URL of the endpoint.
    pub fn url(&self) -> String {
        format!("http://{}", self.host)
    }

    /// Returns the environment variables from which the usual clients take endpoint and credentials.
    pub fn variables(&self) -> Vec<(&'static str, String)> {
        let (key, secret) = (self.credentials.access_key.clone(), self.credentials.secret_key().to_string());
        let url = self.url();
        let known = ["NO_PROXY", "no_proxy"].iter().find_map(|name| std::env::var(name).ok());
        let ip = self.host.rsplit_once(':').map_or("", |(ip, _)| ip);
        let direct = known.map_or(ip.to_string(), |known| format!("{known},{ip}"));
        vec![
            ("AWS_ACCESS_KEY_ID", key.clone()),
            ("AWS_SECRET_ACCESS_KEY", secret.clone()),
            ("AWS_REGION", self.region.clone()),
            ("AWS_DEFAULT_REGION", self.region.clone()),
            ("AWS_ENDPOINT_URL", url.clone()),
            ("AWS_ENDPOINT", url.clone()),
            // Proxies do not reach the loopback address.
            ("NO_PROXY", direct.clone()),
            ("no_proxy", direct),
            ("AWS_ENDPOINT_URL_S3", url.clone()),
            // Clients on Rust's object_store refuse HTTP otherwise.
            ("AWS_ALLOW_HTTP", "true".into()),
            ("S3_ENDPOINT_URL", url.clone()),
            ("RCLONE_CONFIG_METER_TYPE", "s3".into()),
            ("RCLONE_CONFIG_METER_PROVIDER", "Other".into()),
            ("RCLONE_CONFIG_METER_ENDPOINT", url.clone()),
            ("RCLONE_CONFIG_METER_REGION", self.region.clone()),
            ("RCLONE_CONFIG_METER_ACCESS_KEY_ID", key.clone()),
            ("RCLONE_CONFIG_METER_SECRET_ACCESS_KEY", secret.clone()),
            ("RCLONE_CONFIG_METER_FORCE_PATH_STYLE", "true".into()),
            ("RESTIC_REPOSITORY", format!("s3:{url}/{}", self.bucket)),
            ("DUCKDB_S3_ENDPOINT", self.host.clone()),
            ("DUCKDB_S3_USE_SSL", "false".into()),
            ("MC_HOST_meter", format!("http://{key}:{secret}@{}", self.host)),
        ]
    }

    /// Returns the variables as commands of a shell.
    pub fn exports(&self) -> String {
        let removed = REMOVED.iter().map(|name| format!("unset {name}\n"));
        let set = self.variables().into_iter().map(|(name, value)| format!("export {name}='{value}'\n"));
        removed.chain(set).collect()
    }

    /// Starts a command with these variables. Its standard output goes to standard error, so that standard output has
    /// only the report.
    ///
    /// # Errors
    /// If the program cannot be started.
    pub fn start(&self, command: &[String]) -> io::Result<Child> {
        let (program, arguments) = command.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut child = Command::new(program);
        child.args(arguments);
        REMOVED.iter().for_each(|name| {
            child.env_remove(name);
        });
        child.envs(self.variables()).stdout(Stdio::from(io::stderr())).spawn()
    }
}

/// Returns the exit status as a shell reports it, and in words.
pub fn ended(status: ExitStatus) -> (Option<i32>, String) {
    match (status.code(), status.signal()) {
        (Some(code), _) => (Some(code), format!("exit status {code}")),
        (None, Some(signal)) => (None, format!("signal {signal}")),
        (None, None) => (None, "an unknown status".into()),
    }
}

/// Signals to this process, which are passed to the command, so that it can end and its requests be reported.
pub struct Signals {
    command: mpsc::UnboundedSender<Option<Pid>>,
}

impl Signals {
    /// Starts to handle signals.
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn listen() -> io::Result<Signals> {
        let (command, mut commands) = mpsc::unbounded_channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let listening = move || -> io::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(async {
                let mut interrupt = signal(SignalKind::interrupt())?;
                let mut terminate = signal(SignalKind::terminate())?;
                let mut hang_up = signal(SignalKind::hangup())?;
                let _ = ready.send(());
                let mut process = None;
                loop {
                    let by = tokio::select! {
                        next = commands.recv() => match next {
                            Some(next) => {
                                process = next;
                                continue;
                            }
                            None => return Ok(()),
                        },
                        _ = interrupt.recv() => Signal::INT,
                        _ = terminate.recv() => Signal::TERM,
                        _ = hang_up.recv() => Signal::HUP,
                    };
                    // The terminal sends Ctrl-C to the command, too.
                    if let Some(process) = process
                        && (by != Signal::INT || !is_in_foreground())
                    {
                        send(process, by);
                    }
                }
            })
        };
        std::thread::Builder::new().name("signals".into()).spawn(listening)?;
        is_ready.recv().map_err(io::Error::other)?;
        Ok(Signals { command })
    }

    /// Waits for the end of a command, and passes signals to it until then.
    ///
    /// # Errors
    /// If the command cannot be waited for.
    pub fn wait_for(&self, child: &mut Child) -> io::Result<ExitStatus> {
        let process = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        // The receiver exists as long as this value.
        let _ = self.command.send(process);
        let status = child.wait();
        let _ = self.command.send(None);
        status
    }
}

/// Returns true if this process belongs to the foreground of a terminal.
fn is_in_foreground() -> bool {
    let terminal = std::fs::File::open("/dev/tty");
    terminal.is_ok_and(|terminal| tcgetpgrp(terminal).is_ok_and(|group| group == getpgrp()))
}

fn send(process: Pid, by: Signal) {
    // A command that has ended needs no signal.
    let _ = kill_process(process, by);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> Address {
        Address {
            host: "127.0.0.1:39211".into(),
            bucket: "meter".into(),
            region: "eu-west-1".into(),
            credentials: Credentials::new("key", "secret", None),
        }
    }

    #[test]
    fn a_command_sees_the_endpoint_and_no_other_account() {
        let script = "test \"$AWS_ENDPOINT_URL_S3\" = http://127.0.0.1:39211 \
            -a \"$RESTIC_REPOSITORY\" = s3:http://127.0.0.1:39211/meter -a -z \"$AWS_PROFILE\" || exit 3; exit 7";
        let command = ["sh", "-c", script].map(String::from);
        let status = address().start(&command).unwrap().wait().unwrap();
        assert_eq!(ended(status), (Some(7), "exit status 7".into()));
        assert!(address().start(&["/no/such/program".to_string()]).is_err());
        let exports = address().exports();
        assert!(exports.contains("unset AWS_PROFILE\n"), "{exports}");
        assert!(exports.contains("export MC_HOST_meter='http://key:secret@127.0.0.1:39211'\n"), "{exports}");
    }

    #[test]
    fn the_end_by_a_signal_has_no_exit_status() {
        let mut child = address().start(&["sleep", "1000"].map(String::from)).unwrap();
        send(Pid::from_raw(child.id() as i32).unwrap(), Signal::TERM);
        assert_eq!(ended(child.wait().unwrap()), (None, "signal 15".into()));
    }
}
