// Package rlsgate answers Envoy: its rate limit service (envoy.service.ratelimit.v3) and its external authorization
// (ext_authz v3), over gRPC, with the same throttles as every other gate.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while requests are under way.
//
// A domain of the rate limit service is configured in one of two ways. In weir's own way, it has a list of throttles,
// and each descriptor that names an account is an event which they judge. What one descriptor of a request took is
// given back when another one is refused. Or a domain comes from a file of envoyproxy/ratelimit: then every descriptor
// that matches a rule is charged by itself, refused or not, and the answers are those of the original, request by
// request. A domain that is not configured is let through, as there.
//
// The answers differ from the original's in this:
//   - Beyond a limit nothing more is remembered than that it was passed. Where two limits count the same thing, the
//     figures of the higher one are then those at which the lower one stopped. That takes an override (the limit that a
//     descriptor brings) which differs from the rule for the same values, or descriptors whose keys and values run
//     together to the same text: (a, b_c) and (a_b, c).
//   - Limits of different units never share a counter. Those of the original do while both windows begin at the same
//     moment.
//   - Hits that are to be given back (is_negative_hits) charge nothing here, where the original adds them. The
//     unit_multiplier of an override is left out of account by both.
//   - A descriptor with a key or value over bounds.value is over the limit, and counted nowhere.
//   - What only concerns its statistics (detailed_metric, value_to_metric), its cache of what is over the limit and the
//     jitter of its expiry has no meaning here. A key that stands where it has no meaning is a mistake, where the
//     original passes over it.
//   - Errors have gRPC codes that fit, where the original knows Unknown alone; whoever asks sees an error in both
//     cases.
//
// Envoy lets a request pass after an error, unless it is configured otherwise (failure_mode_deny). So nothing that a
// client sends is answered by an error: it is counted, or over the limit.
//
// What a caller may take of the gate is bounded: connections, requests at once, the size of a message, descriptors,
// entries and their length. Time comes from Env.Clock, with one exception: deadlines of sockets and of calls are kept
// in real time.
package rlsgate
