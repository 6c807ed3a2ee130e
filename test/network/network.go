// Package network has the tests of what sandboxes reach, through the API of a daemon
// that runs in the lab of package netfixture: policies and their changes, logs, secrets,
// and all that a session lives through. What an attacker tries is test/attack's.
package network
