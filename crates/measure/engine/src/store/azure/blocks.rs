//! Uploads of blocks. The id of an upload is chosen here: blocks whose ids begin with it belong to it.

use std::sync::Arc;

use super::call::BlobCall;
use super::{AzureConnection, invalid_request, page_of, unreadable};
use crate::store::{Body, Failure, Ignore, Observer, Reply, Request, Timings};
use plimsoll_base::clock::now_ns;
use plimsoll_base::provider::calls::Call as BilledCall;
use plimsoll_base::rng::entropy;
use plimsoll_s3::azure::message::{block_id, uploads as uploads_in};

impl AzureConnection {
    /// Executes the requests of an upload of blocks.
    pub(super) async fn blocks(
        &mut self,
        request: Request<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Reply, Failure> {
        let (url, mut timings) = (Arc::clone(&self.url), Timings::default());
        match request {
            Request::CreateMultipart { .. } => {
                let now = now_ns();
                observer.started(now);
                let timings =
                    Timings { start_ns: now, end_ns: now, first_byte_ns: now, ..Timings::default() };
                Ok(Reply { upload_id: Some(format!("{:016x}", entropy())), timings, ..Reply::default() })
            }
            Request::UploadPart { key, upload_id, number, body } => {
                let bytes = body.len();
                let call = BlobCall::block(&url, key, &block_id(upload_id, number), body, observer);
                self.ask(&call, observer, &mut timings).await?;
                // Blocks have no entity tag; their numbers identify them.
                Ok(Reply { bytes, etag: Some(number.to_string()), timings, ..Reply::default() })
            }
            Request::CompleteMultipart { key, upload_id, parts } => {
                let call = BlobCall::commit(&url, key, upload_id, parts.len() as u32, observer);
                let call = call.map_err(invalid_request)?;
                let (head, _) = self.ask(&call, observer, &mut timings).await?;
                Ok(Reply { etag: head.text("etag").map(str::to_string), timings, ..Reply::default() })
            }
            Request::AbortMultipart { key, .. } => {
                let also = self.discard(key.as_str(), observer, &mut timings).await?;
                Ok(Reply { timings, also, ..Reply::default() })
            }
            Request::ListUploads { prefix, token } => {
                let call = BlobCall::list(&url, "uncommittedblobs", prefix, token, 1000);
                let (_, body) = self.ask(&call, observer, &mut timings).await?;
                let page = page_of(&body, timings)?.listing;
                let (mut uploads, mut also) = (Vec::new(), Vec::new());
                // A blob that has only blocks is listed without content, like an empty one.
                for blob in page.objects.into_iter().filter(|blob| blob.size == 0) {
                    let call = BlobCall::uncommitted(&url, &blob.key);
                    let (_, body) = self.ask(&call, observer, &mut timings).await?;
                    also.push(BilledCall::GetObject);
                    let found = uploads_in(&body).map_err(|e| unreadable(&e, timings))?;
                    uploads.extend(found.into_iter().map(|id| (blob.key.clone(), id)));
                }
                Ok(Reply { uploads, next_token: page.next_token, also, timings, ..Reply::default() })
            }
            _ => Err(invalid_request("this store does not support the operation")),
        }
    }

    /// Discards the blocks of a blob that does not exist yet: an empty blob replaces them, and is deleted. Blocks of a
    /// blob that exists stay until it is written or deleted, or for a week, because no request removes them alone.
    /// Returns the requests besides the first one.
    async fn discard(
        &mut self,
        key: &str,
        observer: &mut dyn Observer,
        timings: &mut Timings,
    ) -> Result<Vec<BilledCall>, Failure> {
        let url = Arc::clone(&self.url);
        match self.ask(&BlobCall::head(&url, key), observer, timings).await {
            Ok(_) => return Ok(vec![BilledCall::HeadObject]),
            Err(failure) if failure.is_code("NoSuchKey") => {}
            Err(failure) => return Err(failure),
        }
        let empty =
            BlobCall::put(&url, key, Body::Whole(Default::default()), &Ignore).map_err(invalid_request)?;
        self.ask(&empty, observer, timings).await?;
        self.delete(&BlobCall::delete(&url, key), observer, timings).await?;
        Ok(vec![BilledCall::HeadObject, BilledCall::PutObject])
    }
}
