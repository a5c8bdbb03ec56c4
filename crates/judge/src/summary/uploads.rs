//! Figures of multipart uploads.

use super::result::{UploadFigures, Window};
use plimsoll_workload::OperationKind;
use plimsoll_workload::schedule::Phase;
use plimsoll_workload::size::Size;

/// Returns the settings of a phase's multipart uploads; `None` if it does not upload in parts.
pub fn of_phase(phase: &Phase, kind: OperationKind) -> Option<UploadFigures> {
    let written = &phase.workload.written;
    if kind != OperationKind::Put || written.upload.part_size == 0 {
        return None;
    }
    let object_bytes = match written.size {
        Size::Fixed(bytes) => Some(bytes),
        _ => None,
    };
    Some(UploadFigures {
        object_bytes,
        part_bytes: written.upload.part_size,
        parts_in_flight: written.upload.in_flight as u64,
        checksum: written.upload.checksum.clone(),
        verify: phase.verify.name().into(),
    })
}

/// Returns the median rate of single uploads in bytes per second; `None` if object sizes differ or there is no median.
pub fn median_bytes_per_s(window: &Window) -> Option<f64> {
    let bytes = window.upload.as_ref()?.object_bytes?;
    Some(bytes as f64 / (window.service_ms.p50? / 1e3))
}
