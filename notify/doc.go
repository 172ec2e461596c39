// Package notify tells people what happens at a weir, by webhook and by mail.
//
// Most callers want New, Notifier.Tell and Notifier.Close. Tell never waits: each target has a queue of its own, and
// what waits in it goes together, so that a thousand users who are stopped at once make ten messages. What cannot be
// delivered is tried again for a day. A Notifier is safe for concurrent use.
//
// A webhook is a POST with JSON, signed as the Standard Webhooks specification says: the header webhook-signature has
// an HMAC-SHA256 of webhook-id, webhook-timestamp and the body under the target's secret.
package notify
