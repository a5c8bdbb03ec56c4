//! What credential chains may use: files, the environment, commands, HTTP. The chains themselves are `reqsign`'s.

use std::collections::HashMap;
use std::path::PathBuf;

use bytes::Bytes;
use reqsign_core::{CommandExecute, CommandOutput, Context, Env, Error as ReqsignError, FileRead, HttpSend};

use super::connection::fetch;

/// The surroundings of a credential chain: this machine's.
pub fn context() -> Context {
    Context::new()
        .with_file_read(Files)
        .with_env(Environment)
        .with_command_execute(Commands)
        .with_http_send(Http)
}

#[derive(Debug)]
struct Files;

impl FileRead for Files {
    async fn file_read(&self, path: &str) -> reqsign_core::Result<Vec<u8>> {
        std::fs::read(path).map_err(|e| ReqsignError::config_invalid(format!("{path}: {e}")))
    }
}

#[derive(Debug)]
struct Environment;

impl Env for Environment {
    fn var(&self, key: &str) -> Option<String> {
        std::env::var(key).ok()
    }

    fn vars(&self) -> HashMap<String, String> {
        std::env::vars().collect()
    }

    fn home_dir(&self) -> Option<PathBuf> {
        std::env::home_dir()
    }
}

#[derive(Debug)]
struct Commands;

impl CommandExecute for Commands {
    async fn command_execute(&self, program: &str, args: &[&str]) -> reqsign_core::Result<CommandOutput> {
        let output = std::process::Command::new(program)
            .args(args)
            .output()
            .map_err(|e| ReqsignError::config_invalid(format!("credential_process {program}: {e}")))?;
        Ok(CommandOutput {
            status: output.status.code().unwrap_or(-1),
            stdout: output.stdout,
            stderr: output.stderr,
        })
    }
}

#[derive(Debug)]
struct Http;

impl HttpSend for Http {
    async fn http_send(&self, request: http::Request<Bytes>) -> reqsign_core::Result<http::Response<Bytes>> {
        // The chain runs before and between phases; a second for an instance metadata service that is
        // not there keeps a laptop without credentials from waiting long.
        fetch(request).await.map_err(|e| ReqsignError::unexpected(format!("credential request failed: {e}")))
    }
}
