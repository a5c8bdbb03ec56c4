/** The little XML that S3's requests and responses need. */

const ENTITIES: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&apos;" };

/** Escapes text for an element. */
export function escape(text: string): string {
    return text.replace(/[&<>"']/g, (character) => ENTITIES[character]);
}

function unescape(text: string): string {
    const named = new Map(Object.entries(ENTITIES).map(([character, entity]) => [entity, character]));
    return text.replace(/&(?:#(\d+)|#x([0-9a-fA-F]+)|\w+);/g, (entity, decimal, hexadecimal) => {
        const code = decimal ? Number(decimal) : hexadecimal ? parseInt(hexadecimal, 16) : undefined;
        return code === undefined ? (named.get(entity) ?? entity) : String.fromCodePoint(code);
    });
}

/** Returns the texts of all elements called `name` that contain no other elements. */
export function textsOf(xml: string, name: string): string[] {
    return [...xml.matchAll(new RegExp(`<${name}>([^<]*)</${name}>`, "g"))].map((match) => unescape(match[1]));
}
