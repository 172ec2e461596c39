// Package apigate is the edge for those who ask instead of passing through: a service puts a question to the decision
// API, over HTTP and in JSON, and gets a verdict. It listens, checks the bearer token, turns each question into an
// event, puts it before the chain of the policy that it names, and answers.
//
// Most callers want New, Listen, Start and Stop; Prepare takes new options while requests are under way.
//
// What an admission or a wait has taken is a hold. Where the client asks for it ("hold": true), the hold of an
// admission stays open until the client settles it, so that places at once and bytes are accounted for. Otherwise an
// admission is settled as done at once, which suits a service that asks and goes on. A wait is always a hold: a place
// in line, which the client awaits. Its hold ends when await has told the final verdict, unless the client asked to
// settle it.
//
// Every hold is settled exactly once: by its client, by the answer that ends it, or, when the client does not come in
// time, by the gate, as done or undone as the options say. A hold keeps the chain that it was taken under across
// reloads. It belongs to the gate that gave it: another node answers that it does not have it.
//
// What a client may take of the gate is bounded: connections, requests at once, the body, requests in a batch,
// recipients, open holds, and the time for everything. Requests are read strictly: a field that is unknown or comes
// twice is an error, and the answer names it.
//
// Time comes from Env.Clock, with one exception: deadlines of sockets are kept by the operating system in real time.
package apigate
