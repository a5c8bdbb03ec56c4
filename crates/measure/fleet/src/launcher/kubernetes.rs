//! The pods of an Indexed Job, attached with kubectl, and the manifest that creates them.

use std::process::Command;

use super::{Carrier, LaunchError, Launcher, output};

/// Label with the index of a pod, which Kubernetes sets on the pods of an Indexed Job.
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// Pods of an Indexed Job that `plimsoll fleet manifest` created.
pub struct Kubernetes {
    pods: Vec<String>,
}

/// Settings of the manifest.
#[derive(Debug, Clone)]
pub struct Manifest {
    /// Name of the Job.
    pub name: String,
    /// Number of pods.
    pub nodes: u64,
    /// Container image that has Plimsoll.
    pub image: String,
    /// Secret whose entries become environment variables, such as AWS_ACCESS_KEY_ID; `None` for none.
    pub secret: Option<String>,
    /// Service account of the pods; `None` for the default.
    pub service_account: Option<String>,
    /// CPU and memory of each pod, as Kubernetes quantities.
    pub resources: (String, String),
}

impl Manifest {
    /// Returns the Job as JSON, which kubectl accepts like YAML. Each pod waits for a job on its standard input and
    /// runs on a node of its own.
    pub fn to_json(&self) -> serde_json::Value {
        use serde_json::json;
        let (cpu, memory) = &self.resources;
        let labels = json!({ "app.kubernetes.io/name": "plimsoll", "app.kubernetes.io/instance": self.name });
        let mut container = json!({
            "name": "plimsoll",
            "image": self.image,
            "command": ["plimsoll", "fleet", "node"],
            "args": ["--of", self.nodes.to_string()],
            "stdin": true,
            "stdinOnce": true,
            "resources": {
                "requests": { "cpu": cpu, "memory": memory },
                "limits": { "cpu": cpu, "memory": memory },
            },
            "securityContext": {
                "allowPrivilegeEscalation": false,
                "runAsNonRoot": true,
                "runAsUser": 65532,
                "capabilities": { "drop": ["ALL"] },
                "seccompProfile": { "type": "RuntimeDefault" },
            },
        });
        if let Some(secret) = &self.secret {
            container["envFrom"] = json!([{ "secretRef": { "name": secret } }]);
        }
        let mut pod = json!({
            "restartPolicy": "Never",
            "containers": [container],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": { "matchLabels": labels },
            }]}},
        });
        if let Some(account) = &self.service_account {
            pod["serviceAccountName"] = json!(account);
        }
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": { "name": self.name, "labels": labels },
            "spec": {
                "completions": self.nodes,
                "parallelism": self.nodes,
                "completionMode": "Indexed",
                "backoffLimit": 0,
                "ttlSecondsAfterFinished": 600,
                "template": { "metadata": { "labels": labels }, "spec": pod },
            },
        })
    }
}

impl Kubernetes {
    /// Waits until the pods of the Job `job` run, and lists them in the order of their indexes.
    ///
    /// # Errors
    /// [`LaunchError`] if kubectl fails, or the Job has another number of pods.
    pub fn attached(job: &str, nodes: Option<u64>) -> Result<Kubernetes, LaunchError> {
        if job.is_empty() || job.starts_with('-') {
            return Err(LaunchError::Nodes(
                "--on k8s: the name of the Job is missing; create it with `plimsoll fleet manifest | kubectl apply -f -` \
                 and use --on k8s:plimsoll"
                    .into(),
            ));
        }
        let selector = format!("job-name={job}");
        output(Command::new("kubectl").args([
            "wait",
            "pod",
            "--for=condition=Ready",
            "--timeout=300s",
            "--selector",
            &selector,
        ]))?;
        let path = format!(
            "jsonpath={{range .items[*]}}{{.metadata.annotations['{}']}}{{\" \"}}{{.metadata.name}}{{\"\\n\"}}{{end}}",
            INDEX.replace('.', "\\.")
        );
        let text = output(Command::new("kubectl").args([
            "get",
            "pods",
            "--selector",
            &selector,
            "--output",
            &path,
        ]))?;
        let pods = in_order(&text).ok_or_else(|| LaunchError::Engine {
            command: "kubectl".into(),
            reason: format!("the pods of Job {job} have no indexes; is its completionMode Indexed?"),
        })?;
        match nodes {
            Some(nodes) if nodes != pods.len() as u64 => Err(LaunchError::Nodes(format!(
                "--nodes {nodes}: the Job {job} has {} pods; omit --nodes",
                pods.len()
            ))),
            _ => Ok(Kubernetes { pods }),
        }
    }
}

/// Returns the names of pods in the order of their indexes, from lines with an index and a name. `None` if an index is
/// missing or occurs twice, or if there are no pods.
fn in_order(text: &str) -> Option<Vec<String>> {
    let mut pods = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let (index, name) = line.trim().split_once(' ')?;
            Some((index.parse::<u64>().ok()?, name.to_string()))
        })
        .collect::<Option<Vec<_>>>()?;
    pods.sort();
    let complete = pods.iter().enumerate().all(|(i, (index, _))| *index == i as u64);
    (complete && !pods.is_empty()).then(|| pods.into_iter().map(|(_, name)| name).collect())
}

impl Launcher for Kubernetes {
    fn nodes(&self) -> &[String] {
        &self.pods
    }

    fn carriers(&self) -> Vec<Carrier> {
        let carrier = |(node, pod): (usize, &String)| {
            let mut command = Command::new("kubectl");
            command.args(["attach", "--stdin", "--quiet", pod]);
            Carrier { command, nodes: vec![node as u64] }
        };
        self.pods.iter().enumerate().map(carrier).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_are_ordered_by_their_index() {
        assert_eq!(in_order("1 b\n0 a\n2 c\n").unwrap(), ["a", "b", "c"]);
        for wrong in ["", "0 a\n0 b\n", "1 b\n", " a\n", "x a\n"] {
            assert!(in_order(wrong).is_none(), "{wrong:?}");
        }
    }
}
