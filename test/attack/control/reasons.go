package main

// withoutRow are the cases of the list that no row is for, and why.
var withoutRow = map[string]string{
	"A19": "waits for streams, which without owners do not end; A02 and A20 are red without them",
	"A21": "a link is checked as a whole: without the check of its credential its unit tests are red, and no part of it can be turned off",
	"L04": "a sealed copy in memory, of which nobody else has the file: there is nothing to take away",
	"L05": "held by one confinement for all, without which shells would have several: there is nothing to take away",
	"L06": "has a control of its own: sandboxes with another name, environment and memory, which its census tells apart",
	"L07": "held by the mount namespace, without which the host's files would be at stake",
	"L08": "held by opening beneath a directory, without which the host's files would be at stake",
	"L09": "held by the mount namespace, without which the host's files would be at stake",
	"L10": "of the image store, which unpacks as the host's root and is not weakened",
	"K22": "looks for what nobody knows of: there is nothing to take away that it would have to notice",
	"K23": "the kernel refuses it because of the user namespace, which always stays",
	"K24": "the kernel asks for capabilities over the host's user namespace, which nothing inside ever has",
	"P07": "what could be written to is a sealed copy in memory, of which nobody else has the file: there is nothing to take away",
	"P09": "held by the mount namespace, without which the host's files would be at stake",
	"P10": "held by the mount namespace and by resolving beneath the root, without which the host's files would be at stake",
	"P11": "as P10",
	"H02": "held by the mount namespace, without which the host's files would be at stake",
	"H03": "as H02",
	"H09": "held by a socket without a name inside: there is nothing to take away",
	"N04": "as H09",
	"N05": "as H09",
	"R07": "held by user ids of the sandbox's own, which always stay",
	"S06": "held by a shell without a terminal: there is nothing to take away",
	"T07": "of the image store, which unpacks as the host's root and is not weakened",
	"T08": "no program of an imported image is ever run on the host: there is nothing to take away",
	"T09": "as T07",
	"T10": "as T07",
	"H10": "as T07",
	"H08": "modes are nothing to the sandbox's root, and its disk is thrown away as a whole: there is nothing to take away",
	"C02": "an environment is given to its own sandbox and written nowhere else: there is nothing to take away",
	"E08": "each program has pipes of its own: there is nothing to take away",
	"S02": "a command's output is redirected for it alone, without which none would come: there is nothing to take away",
	"X01": "has a control of its own: the kernel's user reaches all that others do not",
	"X02": "has a control of its own: what was forged does come to the daemon",
	"X03": "has a control of its own: what is too long has a file in the sandbox",
	"X04": "has a control of its own: the text is in the answer",
	"S18": "each terminal is a pseudo-terminal of its own: there is nothing to take away",
}

// unasked are the cases for which the control has no protection to take away
// yet: that they can fail, their authors have seen, and no machine. What keeps
// the races of A13 apart is in many places; a number of H13 is refused in three,
// the runner's the last.
var unasked = []string{"A13", "H13"}
