//! Lines of logs read per second, by format. Run with `make bench-logs`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "prints its results")]

use std::fmt::Write as _;

use plimsoll_base::clock::now_ns;
use plimsoll_base::rng::Stream;
use plimsoll_experiment::logs::collect;
use plimsoll_workload::trace::Logs;

const LINES: u64 = 1_000_000;

/// Returns a log of a format: 300 requests a second for 100,000 objects.
fn log(format: &str) -> String {
    let draws = Stream::new(1, "log");
    let mut out = String::with_capacity(LINES as usize * 350);
    match format {
        "cloudfront" => out.push_str(
            "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status \
             cs(Referer) cs(User-Agent) cs-uri-query cs(Cookie) x-edge-result-type x-edge-request-id\n",
        ),
        "warp" => out.push_str(
            "idx\tthread\top\tclient_id\tn_objects\tbytes\tendpoint\tfile\terror\tstart\tfirst_byte\tend\tduration_ns\n",
        ),
        "csv" => out.push_str("time,operation,key,size,bytes,status\n"),
        _ => {}
    }
    for i in 0..LINES {
        let (object, size) = (draws.below(2 * i, 100_000), 1_000 + draws.below(2 * i + 1, 1 << 20));
        let (minute, second, fraction) = (i / 300 / 60 % 60, i / 300 % 60, i % 300 * 3_333_333);
        let key = format!("photos/2026/{object:06}.jpg");
        let _ = match format {
            "s3" => writeln!(
                out,
                "79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be bucket [06/Feb/2026:10:{minute:02}:{second:02} +0000] \
                 192.0.2.3 79a59df900b949e55d96a1e698fbacedfd6e09d98eacf8f8d5218e7cd47ef2be {i:016X} REST.GET.OBJECT {key} \
                 \"GET /bucket/{key} HTTP/1.1\" 200 - {size} {size} 70 10 \"-\" \"S3Console/0.4\" - hostid SigV4 ECDHE AuthHeader \
                 bucket.s3.us-west-1.amazonaws.com TLSV1.2"
            ),
            "cloudfront" => writeln!(
                out,
                "2026-02-06\t10:{minute:02}:{second:02}\tFRA2-C1\t{size}\t192.0.2.10\tGET\td111.cloudfront.net\t/{key}\t200\t-\t\
                 Mozilla/5.0\t-\t-\tHit\t{i:016x}"
            ),
            "nginx" => writeln!(
                out,
                "192.0.2.10 - - [06/Feb/2026:10:{minute:02}:{second:02} +0000] \"GET /{key} HTTP/1.1\" 200 {size} \"-\" \"Mozilla/5.0\""
            ),
            "minio" => writeln!(
                out,
                "{{\"version\":\"1\",\"deploymentid\":\"8f3b\",\"time\":\"2026-02-06T10:{minute:02}:{second:02}.{fraction:09}Z\",\"event\":\"\",\
                 \"trigger\":\"incoming\",\"api\":{{\"name\":\"GetObject\",\"bucket\":\"bucket\",\"object\":\"{key}\",\"status\":\"OK\",\
                 \"statusCode\":200,\"rx\":0,\"tx\":{size},\"timeToFirstByte\":\"1ms\",\"timeToResponse\":\"2ms\"}},\
                 \"remotehost\":\"192.0.2.10\",\"requestID\":\"{i:016X}\",\"userAgent\":\"MinIO (linux; amd64)\"}}"
            ),
            "warp" => writeln!(
                out,
                "{i}\t1\tGET\tclient\t1\t{size}\thttp://127.0.0.1:9000\t{key}\t\t2026-02-06T10:{minute:02}:{second:02}.{fraction:09}Z\t\t\
                 2026-02-06T10:{minute:02}:{second:02}.{fraction:09}Z\t1000"
            ),
            _ => writeln!(
                out,
                "2026-02-06T10:{minute:02}:{second:02}.{fraction:09}Z,GET,{key},{size},{size},200"
            ),
        };
    }
    out
}

fn main() {
    let directory = std::env::temp_dir().join(format!("plimsoll-bench-logs-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    for format in ["s3", "cloudfront", "nginx", "minio", "warp", "csv"] {
        let file = directory.join(format);
        std::fs::write(&file, log(format)).unwrap();
        let mut seconds: Vec<f64> = (0..3)
            .map(|_| {
                let begin = now_ns();
                let found = collect(&Logs { files: vec![file.clone()], ..Logs::default() }).unwrap();
                assert_eq!((found.trace.requests().len() as u64, found.formats), (LINES, vec![format]));
                (now_ns() - begin) as f64 / 1e9
            })
            .collect();
        seconds.sort_by(f64::total_cmp);
        println!("{format:10} {:>9.0} lines/s (median of three)", LINES as f64 / seconds[1]);
    }
    std::fs::remove_dir_all(&directory).unwrap();
}
