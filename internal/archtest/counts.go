package archtest

// WeakenSites is in how many places the build with the tag weaken takes a
// protection away. Each is a branch in code that protects: one more is a decision.
const WeakenSites = 125

// TestSleeps is in how many places tests wait for a fixed time or poll with a
// sleep of their own. It only falls.
const TestSleeps = 187
