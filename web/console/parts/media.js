// @ts-check
// What depends on the window, where a stylesheet alone cannot say it.
import { useEffect, useState } from '../vendor/preact-htm.js';

/**
 * Whether a media query matches.
 * @param {MediaQueryList} media
 */
export function useMedia(media) {
  const [is, set] = useState(media.matches);
  useEffect(() => {
    const change = () => set(media.matches);
    media.addEventListener('change', change);
    return () => media.removeEventListener('change', change);
  }, []);
  return is;
}
