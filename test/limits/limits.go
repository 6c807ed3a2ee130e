// Package limits has the tests that run into the limits of a session, of a key
// and of the daemon, through the API of a daemon that runs: that each holds, that
// the client is told which it was, and where its use is seen. docs/limits.md names
// them. What several sessions do to another belongs here too; what an attacker
// wins by a limit that does not hold belongs to the driver's tests.
package limits
