/** The nonce of this answer. Style elements that a library makes need it: the policy of the page refuses others. */
export const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? "";
