/** The commit that the site was built from, "+dirty" where files differed; astro.config.mjs puts it in. */
declare const __COMMIT__: string;
